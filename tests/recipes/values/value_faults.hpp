#pragma once

#include <string>
#include <utility>

#include <zkclient/path.hpp>

#include "tests/support/recipe_test.hpp"

namespace zkrecipes {

/// A value in `node`, and what breaks it.
class ValueFaults : public testkit::RecipeFaultTest {
 protected:
  explicit ValueFaults(zkclient::Path node) : RecipeFaultTest(node.parent()), node_(std::move(node)) {}

  /// What another client sees.
  std::string data() {
    std::error_code error;
    const std::string data = the_operator().get(node_, {}, error).data;
    return error ? "(not there)" : data;
  }
  std::int32_t version() { return the_operator().get(node_).stat.version; }
  void make_again(const std::string& data) {
    the_operator().remove(node_);
    the_operator().create(node_, data);
  }
  std::size_t transactions() { return proxy.request_count(zktesting::RequestType::multi); }

 private:
  const zkclient::Path node_;
};

}  // namespace zkrecipes
