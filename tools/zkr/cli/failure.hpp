#pragma once

#include <stdexcept>
#include <string>

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

/// The exit code that says what went wrong.
ExitCode exit_code_of(zkclient::Errc error);

}  // namespace zkr
