#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <zkclient/client.hpp>
#include <zktesting/server.hpp>

#include "store.hpp"

namespace tour {

/// A folder for temporary files. The destructor removes it with what is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// What the tour is played on: a ZooKeeper server (that of ZKRECIPES_SERVER, else one of our own), a
/// prefix for our znodes, and the ledger in a folder of its own. The destructor leaves nothing.
class Stage {
 public:
  /// Throws zktesting::Error, zkclient::Error or std::system_error.
  Stage();
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  [[nodiscard]] bool own_server() const { return server_.has_value(); }
  [[nodiscard]] const std::string& connect_string() const { return connect_string_; }
  [[nodiscard]] const zkclient::Path& prefix() const { return prefix_; }
  [[nodiscard]] Store& store() { return *store_; }

  /// Ephemeral nodes: all of the server if it is ours, else those below our prefix.
  [[nodiscard]] std::size_t ephemeral_nodes() const;
  /// Who is in the queue of the lock, or a candidate of the election.
  [[nodiscard]] std::size_t contenders() const;

 private:
  std::optional<zktesting::Server> server_;
  std::string connect_string_;
  zkclient::Path prefix_;
  std::optional<zkclient::Client> client_;
  std::optional<TemporaryFolder> folder_;
  std::optional<Store> store_;
};

}  // namespace tour
