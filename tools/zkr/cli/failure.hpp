#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include <zkclient/error.hpp>

#include "tools/zkr/cli/exit_code.hpp"

namespace zkr {

/// Ends the program: with this exit code, and with a line on standard error, if there is a text.
class Failure : public std::runtime_error {
 public:
  Failure(ExitCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// What went wrong, for people. Of a refusal also: the right that it takes, and `identities`, those of the call.
std::string explain(const zkclient::Error& error, const std::vector<std::string>& identities);

/// The exit code that says what went wrong.
ExitCode exit_code_of(zkclient::Errc error);

}  // namespace zkr
