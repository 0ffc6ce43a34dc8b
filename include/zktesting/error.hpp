#pragma once

#include <stdexcept>

#include <zkclient/export.hpp>

namespace zktesting {

/// What every function of zktesting throws when it cannot do its work: a text for the person who
/// reads the test's output. It names the address, the folder or the package that is concerned.
class ZKRECIPES_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace zktesting
