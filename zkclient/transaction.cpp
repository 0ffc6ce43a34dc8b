#include <zkclient/transaction.hpp>

#include <zkclient/error.hpp>

namespace zkclient {
namespace {

std::optional<std::string> own(DataView data) {
  if (!data) return std::nullopt;
  return std::string(*data);
}

void check_version(const char* operation, const Path& path, std::int32_t version) {
  if (version < any_version) throw Error(Errc::invalid_argument, operation, path.str(), "the version is negative");
}

}  // namespace

Transaction& Transaction::create(Path path, DataView data, const CreateOptions& options) {
  const auto refuse = [&](const char* why) {
    throw Error(Errc::invalid_argument, "transaction create", path.str(), why);
  };
  switch (options.mode) {
    case CreateMode::persistent:
    case CreateMode::persistent_sequential:
    case CreateMode::ephemeral:
    case CreateMode::ephemeral_sequential: break;
    default: refuse("container and TTL nodes cannot be created inside a transaction");
  }
  if (options.ttl.count() != 0) refuse("a time to live is for TTL nodes only");
  if (options.parents) refuse("missing parents cannot be created inside a transaction");
  if (options.protection) refuse("a protected create cannot be part of a transaction");
  if (options.acl.empty()) throw Error(Errc::invalid_acl, "transaction create", path.str(), "the list is empty");
  operations_.emplace_back(Create{std::move(path), own(data), options.mode, options.acl});
  return *this;
}

Transaction& Transaction::set(Path path, DataView data, std::int32_t version) {
  check_version("transaction set", path, version);
  operations_.emplace_back(Set{std::move(path), own(data), version});
  return *this;
}

Transaction& Transaction::remove(Path path, std::int32_t version) {
  check_version("transaction remove", path, version);
  operations_.emplace_back(Remove{std::move(path), version});
  return *this;
}

Transaction& Transaction::check(Path path, std::int32_t version) { return check(Check{std::move(path), version}); }

Transaction& Transaction::check(Check check) {
  check_version("transaction check", check.path, check.version);
  operations_.emplace_back(std::move(check));
  return *this;
}

}  // namespace zkclient
