#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "contender.hpp"

namespace bench {

/// The main function of a raw contender: `program <host:port> <parent>`, the parent being a node
/// that exists. Says "ready" when `make` has returned, then for each line "run <milliseconds>" of its
/// input "done <cycles> <wall us> <cpu us>", until its input ends. An exception is told as a line
/// "error <what>", and ends it.
using MakeContender = std::function<std::unique_ptr<Contender>(const std::string& server, const std::string& parent)>;
int raw_main(int argc, char** argv, const MakeContender& make);

/// Throws std::runtime_error if a call of the C client failed.
void require_ok(int code, std::string_view call);

/// Throws std::runtime_error unless `children` is one name, that of `node`, which then has the lock.
void require_alone(char* const* children, int count, std::string_view node);

}  // namespace bench
