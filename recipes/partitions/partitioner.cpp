#include <zkrecipes/partitioner.hpp>

#include <algorithm>

#include <fmt/format.h>

#include "recipes/partitions/partitioner_core.hpp"

namespace zkrecipes {

using namespace words;
using detail::PartitionerCore;

namespace {

constexpr const char* listing = "partition source";
constexpr const char* leaving_partitions = "partitioner leave";
constexpr const char* stopping = "partitioner stop";

void require_name(const std::string& name) {
  try {
    if (name.find('/') == std::string::npos) {
      (void)(Path() / name);
      return;
    }
  } catch (const Error&) {
    // Said below.
  }
  throw Error(Errc::invalid_argument, listing, name, "no node can have this name");
}

}  // namespace

PartitionSource PartitionSource::list(std::vector<std::string> names) {
  for (const std::string& name : names)
    require_name(name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) throw Error(Errc::invalid_argument, listing, *twice, "it is there twice");
  PartitionSource source;
  source.names_ = std::move(names);
  return source;
}

PartitionSource PartitionSource::numbered(std::size_t count) {
  std::vector<std::string> names;
  names.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    names.push_back(std::to_string(i));
  return list(std::move(names));
}

PartitionSource PartitionSource::children_of(Path path) {
  PartitionSource source;
  source.parent_ = std::move(path);
  return source;
}

Partitioner::Partitioner(zkclient::Client client, Path path, PartitionSource source, OnAcquired on_acquired,
                         PartitionerOptions options)
    : core_(PartitionerCore::make(std::move(client), std::move(path), std::move(source), std::move(on_acquired),
                                  std::move(options))) {}

Partitioner::~Partitioner() {
  if (core_->member()->forked()) {
    zk::keep_for_ever(std::move(core_));
  } else {
    core_->member()->retire();
  }
}

void Partitioner::start() { core_->start(); }

void Partitioner::leave(const CallOptions& call) { core_->member()->leave(leaving_partitions, false, call); }
void Partitioner::async_leave(zkclient::Handler<void> handler, const CallOptions& call) {
  core_->member()->async_leave(leaving_partitions, false, std::move(handler), call);
}

void Partitioner::stop(const CallOptions& call) { core_->member()->leave(stopping, true, call); }
void Partitioner::async_stop(zkclient::Handler<void> handler, const CallOptions& call) {
  core_->member()->async_leave(stopping, true, std::move(handler), call);
}

std::vector<std::string> Partitioner::owned() const { return core_->member()->held(); }
std::optional<Error> Partitioner::problem() const { return core_->problem(); }
const std::string& Partitioner::id() const noexcept { return core_->member()->id(); }
const Path& Partitioner::path() const noexcept { return core_->member()->path(); }

}  // namespace zkrecipes
