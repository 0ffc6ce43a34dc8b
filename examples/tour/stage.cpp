#include "stage.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <system_error>
#include <utility>
#include <vector>
#include <zktesting/environment.hpp>

#include "worker.hpp"

namespace tour {
namespace {

using namespace std::chrono_literals;

constexpr auto connect_timeout = 15s;
constexpr auto cleanup_timeout = 10s;

zkclient::Path make_prefix() {
  std::random_device random;
  return fmt::format("/zkrecipes-tour-{:08x}{:08x}", random(), random());
}

void connect(const zkclient::Client& client, const std::string& server) {
  try {
    client.connect({.deadline = std::chrono::steady_clock::now() + connect_timeout});
  } catch (const zkclient::Error& error) {
    if (error.code() != zkclient::Errc::deadline_exceeded) {
      throw;
    }
    throw zktesting::Error(fmt::format("no ZooKeeper answered at {} within {} s", server, connect_timeout.count()));
  }
}

// Containers vanish by themselves when they are empty, so a node that is not there is no error.
std::vector<std::string> names_below(const zkclient::Client& client, const zkclient::Path& path,
                                     const zkclient::CallOptions& call = {}) {
  std::error_code error;
  auto children = client.children(path, call, error);
  if (error && error != zkclient::Errc::no_node) {
    throw zkclient::Error(static_cast<zkclient::Errc>(error.value()), "children", path.str());
  }
  return std::move(children.names);
}

// Calls `visit` with each node below and including `path`, children first.
template <typename Visit>
void for_each_node(const zkclient::Client& client, const zkclient::Path& path, const zkclient::CallOptions& call,
                   const Visit& visit) {
  for (const auto& name : names_below(client, path, call)) {
    for_each_node(client, path / name, call, visit);
  }
  visit(path);
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = std::filesystem::temp_directory_path() / "zkrecipes-tour-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), "cannot make the folder " + name);
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Stage::Stage() : prefix_(make_prefix()) {
  if (const auto external = zktesting::external_server()) {
    connect_string_ = *external;
  } else {
    connect_string_ = server_.emplace().connect_string();
  }
  client_.emplace(connect_string_);
  connect(*client_, connect_string_);
  // Last: if we are killed, the workers remove the file, and they are about to be started. The
  // prefix is made by the recipes, as a container: the server removes it when it has become empty.
  folder_.emplace();
  store_.emplace(folder_->path() / "ledger").create();
}

Stage::~Stage() {
  if (own_server()) {
    return;
  }
  try {
    const zkclient::CallOptions call{.deadline = std::chrono::steady_clock::now() + cleanup_timeout};
    for_each_node(*client_, prefix_, call, [&](const zkclient::Path& path) {
      std::error_code ignored;
      client_->remove(path, zkclient::any_version, call, ignored);
    });
  } catch (const std::exception& error) {
    fmt::print(stderr, "tour: could not remove {} from {}: {}\n", prefix_.str(), connect_string_, error.what());
  }
}

std::size_t Stage::ephemeral_nodes() const {
  client_->sync();
  if (server_) {
    return server_->ephemeral_count();
  }
  std::size_t count = 0;
  for_each_node(*client_, prefix_, {}, [&](const zkclient::Path& path) {
    const auto stat = client_->exists(path);
    count += stat && stat->ephemeral_owner != 0 ? 1 : 0;
  });
  return count;
}

std::size_t Stage::contenders() const {
  client_->sync();
  std::size_t count = 0;
  for (const auto* node : {lock_node, election_node}) {
    count += names_below(*client_, prefix_ / node).size();
  }
  return count;
}

}  // namespace tour
