// config get, publish: a configuration as programs follow it.

#include <string>
#include <utility>

#include <fmt/format.h>

#include <zkrecipes/configuration.hpp>

#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/commands.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;
using zkrecipes::Configuration;
using zkrecipes::ConfigurationPtr;

constexpr auto configuration_patience = 15s;  // For the first reading.

struct ConfigurationPlace {
  std::string path;
  std::string key;
};

struct Publication {
  std::string path;
  std::vector<std::string> assignments;
  std::vector<std::string> removed;
  std::string note;
  std::string id;
  std::optional<std::int64_t> revision;
  bool overwrite_edits = false;
};

// What the ensemble has now. If that cannot be in force, the reason says more than the time that is over.
ConfigurationPtr read_configuration(const zkclient::Client& client, const Configuration& configuration) {
  try {
    return configuration.wait_live({.deadline = configuration_patience});
  } catch (const zkclient::Error& error) {
    if (const auto problem = configuration.problem()) throw zkclient::Error(*problem);
    fail_wait(client, error);
  }
}

json::object configuration_json(const std::string& path, const zkrecipes::ConfigurationValues& now) {
  json::array values;
  for (const auto& [key, value] : now.values) {
    json::object one{{"key", key}, {"edited", value.edited}};
    add_data(one, value.text);
    values.push_back(std::move(one));
  }
  return {{"path", path},
          {"revision", now.revision},
          {"publisher", printable(now.publisher)},
          {"note", printable(now.note)},
          {"published", utc_text(now.published)},
          {"edited", now.edited},
          {"values", std::move(values)}};
}

int run_configuration_get(const Context& context, const ConfigurationPlace& options) {
  const zkclient::Path path(options.path);
  const zkclient::Client client = connect_to_look(context, path, "config get");
  const Configuration configuration(client, path);
  const ConfigurationPtr now = read_configuration(client, configuration);
  if (!options.key.empty()) {
    const std::string* const value = now->find(options.key);
    if (value == nullptr) throw Failure(exit_no_node, path.str() + " has no key " + options.key);
    if (!context.json) write_bytes(*value);
    json::object object{{"path", path.str()}, {"key", options.key}, {"revision", now->revision}};
    add_data(object, *value);
    if (context.json) write_line(std::move(object));
    return exit_success;
  }
  if (context.json) {
    write_line(configuration_json(path.str(), *now));
    return exit_success;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, value] : now->values)
    rows.push_back({key, printable(value.text), value.edited ? "(edited)" : ""});
  write_bytes(table(rows));
  return exit_success;
}

zkrecipes::ConfigurationUpdate update_of(const Publication& options) {
  zkrecipes::ConfigurationUpdate update;
  update.note = options.note;
  update.overwrite_edits = options.overwrite_edits;
  for (const std::string& text : options.assignments) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) throw Failure(exit_usage, "\"" + text + "\" is no KEY=VALUE");
    update.values[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const std::string& key : options.removed)
    update.values[key] = std::nullopt;
  return update;
}

int run_configuration_publish(const Context& context, const Publication& options) {
  const zkclient::Path path(options.path);
  zkrecipes::ConfigurationUpdate update = update_of(options);
  const zkclient::Client client = connect_to_look(context);
  const bool there = client.exists(path).has_value();
  Configuration configuration(client, path, {.id = options.id});
  if (there) read_configuration(client, configuration);  // What it has not seen, it does not overwrite.
  const std::int64_t revision =
      configuration.publish(std::move(update), options.revision.value_or(zkrecipes::any_revision));
  if (context.json) {
    write_line(json::object{{"path", path.str()}, {"revision", revision}});
  } else if (!context.quiet) {
    write_line(std::to_string(revision));
  }
  return exit_success;
}

}  // namespace

void add_config(CLI::App& app, Context& context) {
  CLI::App* config = app.add_subcommand("config", "A configuration that programs follow: get, publish");
  config->require_subcommand(1);
  const auto get =
      add_subcommand(*config, context, "get", "Show all keys, or write one value byte for byte", run_configuration_get);
  get->add_option("PATH", get.options->path, "The configuration")->required();
  get->add_option("KEY", get.options->key, "The key; all of them");
  const auto publish = add_subcommand(*config, context, "publish", "Publish values together; writes the new revision",
                                      run_configuration_publish);
  Publication& options = *publish.options;
  publish->add_option("PATH", options.path, "The configuration")->required();
  publish->add_option("KEY=VALUE", options.assignments, "The values");
  publish->add_option("--remove", options.removed, "A key that goes; may be given several times")
      ->allow_extra_args(false)
      ->type_name("KEY");
  publish->add_option("--note", options.note, "For operators: why")->type_name("TEXT");
  publish->add_option("--id", options.id, "Shown as who has published")->type_name("NAME");
  publish->add_option("--revision", options.revision, "Only if this is the newest one")->type_name("N");
  publish->add_flag("--overwrite-edits", options.overwrite_edits, "Also what was edited by hand in this moment");
}

}  // namespace zkr
