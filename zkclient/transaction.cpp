#include <zkclient/transaction.hpp>

#include <zkclient/error.hpp>

namespace zkclient {
namespace {

std::optional<std::string> own_data(DataView data) {
  if (!data) return std::nullopt;
  return std::string(*data);
}

// Says which of the operations it is, from 1.
std::string numbered(std::size_t before, const char* why) {
  return "operation " + std::to_string(before + 1) + ": " + why;
}

}  // namespace

Transaction& Transaction::create(Path path, DataView data, const CreateOptions& options) {
  const auto refuse = [&](const char* why) {
    throw Error(Errc::invalid_argument, "transaction create", path.str(), numbered(operations_.size(), why));
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
  if (const char* why = acl_defect(options.acl)) {
    throw Error(Errc::invalid_acl, "transaction create", path.str(), numbered(operations_.size(), why));
  }
  operations_.emplace_back(Create{std::move(path), own_data(data), options.mode, options.acl});
  return *this;
}

Transaction& Transaction::set(Path path, DataView data, std::int32_t version) {
  operations_.emplace_back(Set{std::move(path), own_data(data), version});
  return *this;
}

Transaction& Transaction::remove(Path path, std::int32_t version) {
  operations_.emplace_back(Remove{std::move(path), version});
  return *this;
}

Transaction& Transaction::check(Path path, std::int32_t version) { return check(Check{std::move(path), version}); }

Transaction& Transaction::check(Check check) {
  operations_.emplace_back(std::move(check));
  return *this;
}

}  // namespace zkclient
