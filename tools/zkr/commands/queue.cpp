// queue push, pop, peek, ls, size, purge, remove, retry-dead.

#include <signal.h>

#include <map>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "tools/zkr/cli/data_option.hpp"
#include "tools/zkr/cli/duration.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/self_description.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/cli/utc_time.hpp"
#include "tools/zkr/commands/commands.hpp"
#include "tools/zkr/commands/queue.hpp"
#include "tools/zkr/hold/any_queue.hpp"

namespace zkr {
namespace {

using zkrecipes::QueueBase;
using zkrecipes::RecipeKind;

struct PushOptions {
  QueueOptions queue;
  DataOption item;
  ItemTraits traits;
  std::optional<std::chrono::nanoseconds> delay;
};

struct RemoveItemOptions {
  QueueOptions queue;
  std::string id;
};

struct RetryOptions {
  QueueOptions queue;
  std::string dead_letters;
};

struct PopOptions {
  QueueOptions queue;
  std::optional<std::chrono::nanoseconds> timeout;
  bool try_once = false;
};

const std::map<std::string, RecipeKind>& kinds() {
  static const std::map<std::string, RecipeKind> all{
      {"plain", RecipeKind::queue},
      {"priority", RecipeKind::priority_queue},
      {"delay", RecipeKind::delay_queue},
      {"id", RecipeKind::id_queue},
  };
  return all;
}

/// For a call that begins now. `kind`: of the items that the command is about, if it tells.
QueueChoice choose(const QueueOptions& options, std::optional<RecipeKind> kind = {}) {
  const std::optional<RecipeKind> named = options.named_kind();
  if (named && kind && *named != *kind) {
    throw Failure(exit_usage,
                  fmt::format("--kind {}: these are items of another kind: {}", options.kind, to_string(*kind)));
  }
  QueueChoice choice{.path = options.path, .layout = options.layout};
  choice.kind = named ? named : kind;
  choice.kind_is_named = named.has_value();
  return choice;
}

AnyQueue open_to_look(const zkclient::Client& client, const QueueOptions& options) { return {client, choose(options)}; }

AnyQueue open_to_change(const zkclient::Client& client, const QueueOptions& options,
                        std::optional<RecipeKind> kind = {}) {
  QueueChoice choice = choose(options, kind);
  choice.changes = true;
  return {client, choice};
}

std::optional<RecipeKind> wanted_kind(const ItemTraits& traits) {
  if (traits.priority) return RecipeKind::priority_queue;
  if (traits.not_before) return RecipeKind::delay_queue;
  if (traits.id) return RecipeKind::id_queue;
  return std::nullopt;
}

// --- The commands -------------------------------------------------------------------------------------------------

int run_push(const Context& context, const PushOptions& options) {
  const std::string item = options.item.required_bytes(context.words);
  ItemTraits traits = options.traits;
  if (options.delay) {
    traits.not_before = std::chrono::system_clock::now() +
                        std::chrono::duration_cast<std::chrono::system_clock::duration>(*options.delay);
  }
  open_to_change(connect(context), options.queue, wanted_kind(traits)).push(item, traits);
  return exit_success;
}

std::optional<std::string> pop_from(QueueBase& queue, const PopOptions& options) {
  if (options.try_once) return queue.try_pop();
  if (options.timeout) return queue.try_pop_for(*options.timeout);
  return queue.pop();
}

std::optional<zkrecipes::Claim> claim_from(QueueBase& queue, const PopOptions& options) {
  if (options.try_once) return queue.try_claim();
  if (options.timeout) return queue.try_claim_for(*options.timeout);
  return queue.claim();
}

int show_item(const Context& context, const std::string& path, const std::optional<std::string>& item) {
  if (!item) throw Failure(exit_not_acquired, context.quiet ? "" : path + ": no item");
  if (context.json) {
    json::object object{{"path", path}};
    add_data(object, *item);
    write_line(std::move(object));
  } else {
    write_bytes(*item);
  }
  return exit_success;
}

// An item leaves the queue when it is written; if that fails, it goes back to its place.
int run_pop(const Context& context, const PopOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);  // It goes back at once, not when the session has timed out.
  AnyQueue queue = open_to_change(connect(context), options.queue);
  const std::string& path = options.queue.path;
  if (!queue.knows_claims()) return show_item(context, path, pop_from(*queue, options));
  auto claim = claim_from(*queue, options);
  if (!claim) return show_item(context, path, std::nullopt);
  show_item(context, path, claim->data());
  claim->commit();
  return exit_success;
}

int run_peek(const Context& context, const QueueOptions& options) {
  AnyQueue queue = open_to_look(connect_to_look(context), options);
  return show_item(context, options.path, queue->peek());
}

int run_items(const Context& context, const QueueOptions& options) {
  AnyQueue queue = open_to_look(connect_to_look(context), options);
  std::vector<std::vector<std::string>> rows;
  for (const zkrecipes::QueueItem& item : queue->list()) {
    if (context.json) {
      json::object object{{"node", item.node},
                          {"priority", item.priority},
                          {"deliveries", item.deliveries},
                          {"claimed", !item.claimed_by.empty()},
                          {"claimed_by", printable(item.claimed_by)},
                          {"since", utc_text(item.since)}};
      if (queue.has_times()) object["not_before"] = utc_text(item.not_before);
      if (queue.has_ids()) object["id"] = printable(item.id);
      add_data(object, item.data);
      write_line(std::move(object));
      continue;
    }
    const SelfDescription claimer = parse_self_description(item.claimed_by);
    const std::string claimed =
        item.claimed_by.empty() ? "" : fmt::format("claimed by {} {}:{}", claimer.who, claimer.host, claimer.pid);
    rows.push_back({item.node, fmt::format("{} B", item.data.size()), fmt::format("{} deliveries", item.deliveries),
                    utc_text(item.since), printable(claimed)});
    if (queue.has_times()) rows.back().push_back("not before " + utc_text(item.not_before));
  }
  write_bytes(table(rows));
  return exit_success;
}

int run_size(const Context& context, const QueueOptions& options) {
  AnyQueue queue = open_to_look(connect_to_look(context), options);
  const std::size_t size = queue->size();
  if (context.json) {
    write_line(json::object{{"path", options.path}, {"items", size}});
  } else {
    write_line(std::to_string(size));
  }
  return exit_success;
}

// Item by item, as consumers take them: what is claimed stays, and what comes meanwhile may be taken or stay.
int run_purge(const Context& context, const QueueOptions& options) {
  AnyQueue queue = open_to_change(connect(context), options);
  std::size_t left = queue->size();
  std::size_t taken = 0;
  while (left-- > 0 && queue->try_pop())
    ++taken;
  if (context.json) {
    write_line(json::object{{"path", options.path}, {"purged", taken}});
  } else if (context.verbose) {
    say(fmt::format("{} items", taken));
  }
  return exit_success;
}

int run_remove_items(const Context& context, const RemoveItemOptions& options) {
  const zkclient::Client client = connect(context);
  const std::size_t removed = open_to_change(client, options.queue, RecipeKind::id_queue).remove(options.id);
  if (context.json) {
    write_line(json::object{{"path", options.queue.path}, {"removed", removed}});
  } else if (context.verbose) {
    say(fmt::format("{} items", removed));
  }
  return exit_success;
}

// Rejected once more there, an item goes to the dead letters' dead letters, in one transaction: that is the queue.
int run_retry_dead(const Context& context, const RetryOptions& options) {
  const zkclient::Client client = connect(context);
  const AnyQueue queue = open_to_look(client, options.queue);
  const zkclient::Path dead =
      options.dead_letters.empty() ? queue.usual_dead_letters() : zkclient::Path(options.dead_letters);
  std::size_t retried = 0;
  if (client.exists(dead)) {
    QueueChoice choice{.path = dead.str(), .layout = queue.layout(), .kind = options.queue.named_kind()};
    choice.kind_is_named = choice.kind.has_value();
    choice.changes = true;
    choice.options.dead_letters = zkclient::Path(options.queue.path);
    AnyQueue letters(client, choice);
    // Those that come back meanwhile are left.
    for (std::size_t left = letters->size(); left > 0; --left) {
      auto letter = letters->try_claim();
      if (!letter) break;
      letter->reject("");
      ++retried;
    }
  }
  if (context.json) {
    write_line(json::object{{"path", options.queue.path}, {"retried", retried}});
  } else if (context.verbose) {
    say(fmt::format("{} items", retried));
  }
  return exit_success;
}

// A queue has items of one kind.
void add_traits(const Subcommand<PushOptions>& push) {
  ItemTraits& traits = push.options->traits;
  CLI::Option* priority =
      push->add_option("--priority", traits.priority, "Of a priority queue; lower numbers come first")->type_name("N");
  CLI::Option* delay = add_duration(*push.app, "--delay", push.options->delay,
                                    "Of a delay queue: nobody gets it before, by this host's clock");
  CLI::Option* time = add_utc_time(*push.app, "--not-before", traits.not_before, "The same as a time");
  CLI::Option* id = push->add_option("--id", traits.id, "Of an id queue: what remove takes")->type_name("ID");
  priority->excludes(delay)->excludes(time)->excludes(id);
  delay->excludes(time)->excludes(id);
  time->excludes(id);
}

}  // namespace

std::optional<RecipeKind> QueueOptions::named_kind() const {
  const auto found = kinds().find(kind);
  return found == kinds().end() ? std::nullopt : std::optional(found->second);
}

void add_queue_options(CLI::App* command, QueueOptions& options) {
  command->add_option("PATH", options.path, "The queue")->required();
  command->add_option("--layout", options.layout, "Whose names its items have; that of the items there, else standard")
      ->check(CLI::IsMember({"standard", "zookeeper", "curator", "kazoo", "kazoo-locking"}));
  command
      ->add_option("--kind", options.kind, "What its items have; decimal ids look like times, and are taken for them")
      ->check(CLI::IsMember({"plain", "priority", "delay", "id"}));
}

void add_queue(CLI::App& app, Context& context) {
  CLI::App* queue =
      app.add_subcommand("queue", "Items in a queue: push, pop, peek, ls, size, work, remove, retry-dead, purge");
  queue->require_subcommand(1);
  const auto push = add_subcommand(*queue, context, "push", "Append an item", run_push, true);
  add_queue_options(push.app, push.options->queue);
  push->add_option("ITEM", push.options->item.word, "The item; - reads standard input");
  add_traits(push);
  const auto pop = add_subcommand(*queue, context, "pop", "Take the first item, and write it; wait for one", run_pop);
  add_queue_options(pop.app, pop.options->queue);
  pop->add_flag("-n,--try", pop.options->try_once, "Do not wait");
  add_duration(*pop.app, "-w,--timeout", pop.options->timeout, "Do not wait longer than that");
  const auto peek = add_subcommand(*queue, context, "peek", "Write the first item that is not claimed", run_peek);
  add_queue_options(peek.app, *peek.options);
  const auto list = add_subcommand(*queue, context, "ls", "List the items, claimed ones included", run_items);
  add_queue_options(list.app, *list.options);
  const auto size = add_subcommand(*queue, context, "size", "The number of items, claimed ones included", run_size);
  add_queue_options(size.app, *size.options);
  add_queue_work(*queue, context);
  const auto retry = add_subcommand(*queue, context, "retry-dead", "Put all dead letters back, at the end of the queue",
                                    run_retry_dead);
  add_queue_options(retry.app, retry.options->queue);
  retry->add_option("--dead-letters", retry.options->dead_letters, "The queue that they are in; PATH/dead")
      ->type_name("PATH");
  const auto remove =
      add_subcommand(*queue, context, "remove", "Remove the items of an id that nobody has claimed", run_remove_items);
  add_queue_options(remove.app, remove.options->queue);
  remove->add_option("ID", remove.options->id, "As push --id has said")->required();
  const auto purge =
      add_subcommand(*queue, context, "purge", "Take all items that nobody has claimed, and that are due", run_purge);
  add_queue_options(purge.app, *purge.options);
}

}  // namespace zkr
