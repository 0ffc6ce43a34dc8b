#pragma once

#include <string_view>

#include <zkclient/export.hpp>

namespace zkclient {

/// What can be asked of this library as it was built. TLS and SASL need a C client that was built with them, which
/// Debian's is not: docs/connection.md tells how to get one.
struct Features {
  bool tls = false;                        ///< Encrypted connections: ClientOptions::tls.
  bool sasl = false;                       ///< SASL authentication: ClientOptions::sasl.
  std::string_view c_client_version = {};  ///< As "3.8.0".
};

/// What the C client of this process can do.
ZKRECIPES_API const Features& features() noexcept;

}  // namespace zkclient
