#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <zkclient/client.hpp>
#include <zkrecipes/configuration.hpp>

#include "recipes/configuration/configuration_decider.hpp"
#include "recipes/kernel/exactly_once_writer.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// The writes of one configuration, and its history. Lives on the loop thread, but for its creation.
class ConfigurationWriter : public std::enable_shared_from_this<ConfigurationWriter> {
 public:
  using PlanPtr = std::shared_ptr<const PublicationPlan>;
  struct Options {
    zkclient::AclList acl;
    std::string id;
    std::size_t history = 20;
  };

  /// Any thread.
  ConfigurationWriter(std::shared_ptr<zk::ClientCore> client, zkclient::Path path, Options options);

  /// Publishes once, although replies and sessions get lost; the new revision.
  static zk::Awaitable<zkclient::Result<std::int64_t>> publish(std::shared_ptr<ConfigurationWriter> self, PlanPtr plan,
                                                               zk::Call call);
  /// What takes the revision `from` back to `to`.
  static zk::Awaitable<zkclient::Result<KeyChanges>> way_back(std::shared_ptr<ConfigurationWriter> self,
                                                              std::int64_t from, std::int64_t to, zk::Call call);
  static zk::Awaitable<zkclient::Result<std::vector<ConfigurationRevision>>> history(
      std::shared_ptr<ConfigurationWriter> self, zk::Call call);

 private:
  using Operations = std::vector<zkclient::Transaction::Operation>;
  enum class Fate { applied, superseded, unknown, untouched };
  struct Prepared;
  struct Undos;

  ConfigurationRecord sign(const PublicationPlan& plan) const;
  Prepared prepare(const PublicationPlan& plan, const ConfigurationRecord& record,
                   const std::vector<std::string>& listed) const;
  zk::Awaitable<zk::Reply> list_history(zk::Call call);
  zk::Awaitable<bool> shorten_history(std::vector<std::string> listed, zk::Call call);
  zk::Awaitable<Fate> find_fate(PlanPtr plan, std::shared_ptr<const ConfigurationRecord> record, zk::Call call);
  zk::Awaitable<Undos> read_undos(std::vector<std::string> names, zk::Call call);
  zkclient::Result<std::int64_t> published(const PublicationPlan& plan, const ConfigurationRecord& record,
                                           const Written& written) const;
  zkclient::Error error_of(Written written, const Prepared& prepared) const;
  std::string node(std::string_view relative) const { return zk::child_path(directory_, relative); }
  std::string history_node(std::string_view name) const { return zk::child_path(history_, name); }

  const std::shared_ptr<zk::ClientCore> client_;
  const zkclient::Path path_;    // As the user wrote it.
  const std::string directory_;  // The same, full.
  const std::string history_;
  const Options options_;
  const std::shared_ptr<ExactlyOnceWriter> once_;
};

}  // namespace zkrecipes::detail
