#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "simulation/servers/tree.hpp"

namespace zktesting::simulated {

/// Checks the parts of one transaction in turn, each as if those before it were done.
class Preparation {
 public:
  Preparation(const Tree& tree, const Caller& caller) : tree_(tree), caller_(caller) {}

  /// The change that the request asks for, or an error. What is checked first wins, as in the real server.
  std::int32_t prepare(const Request& request, Change& change);
  /// What the leader's reaper asks for.
  std::int32_t prepare_delete_container(const std::string& path, Change& change);

 private:
  /// What later parts need to know of a node.
  struct Record {
    bool exists = false;
    SharedAcl acl;
    std::int64_t owner = 0;
    std::int32_t version = 0;
    std::int32_t aversion = 0;
    std::int32_t creations = 0;
    std::int64_t children = 0;
  };

  std::int32_t create(const Request& request, Change& change);
  std::int32_t check_create(const Request& request) const;
  std::int32_t remove(const Request& request);
  std::int32_t set_data(const Request& request, Change& change);
  std::int32_t set_acl(const Request& request, Change& change);
  std::int32_t check(const Request& request, Change& change);
  std::int32_t find_for(const Request& request, std::int32_t wanted, Record& record) const;

  [[nodiscard]] Record find(const std::string& path) const;
  void forget(const std::string& path, const std::string& parent_path, Record parent);

  const Tree& tree_;
  const Caller& caller_;
  std::map<std::string, Record> records_;
};

/// As a real server sees it: absolute, no empty parts, no "." and "..", no strange characters.
bool is_valid_path(std::string_view path);

}  // namespace zktesting::simulated
