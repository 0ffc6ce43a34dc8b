#pragma once

/// The libraries are built with hidden visibility. A shared one shows what is marked here, and nothing else.

/// The public interface of zkclient, zkrecipes and zktesting. A type that is thrown needs it even if all of it is in
/// its header: otherwise no code outside the library can catch it.
#define ZKRECIPES_API [[gnu::visibility("default")]]

/// Marks the parts of zkclient's inside that zkrecipes uses. Not for programs: it changes without notice.
#define ZKRECIPES_INTERNAL_API [[gnu::visibility("default")]]
