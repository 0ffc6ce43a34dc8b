#pragma once

namespace guardian {

/// Waits for the end of the socket, from which it reads the orders of its owner, line by line (orders.hpp). If the owner
/// has not bidden farewell by then, kills what it had started, as far as it was told of it, and closes its session after
/// that: what the session held is free when nothing runs any more that relies on it. `claim`, a descriptor, is closed
/// between the two: a file that is locked by it stays locked until then. -1: there is none. Returns the exit code of this
/// process, which must be single-threaded and have nothing else to do. First of all this process blocks all signals, and
/// sheds what it has inherited of a run of `zkr` that its owner may be part of, so that it is not ended with it: its mark
/// in the environment, and its limit of file locks.
int guard(int socket, int claim = -1);

}  // namespace guardian
