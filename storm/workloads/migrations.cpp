#include "storm/workloads/migrations.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <zkrecipes/migrations.hpp>

#include "storm/checkers/agreements.hpp"
#include "storm/checkers/migrations.hpp"
#include "storm/workloads/sessions.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;
using zkclient::Errc;

constexpr std::int64_t last_release = 30;
constexpr std::string_view step_prefix = "step-";

/// The releases that exist, in one history. They outlive processes.
class Releases {
 public:
  static Releases& of(Place& place) {
    static std::mutex mutex;
    static std::map<const History*, Releases> all;
    const std::lock_guard lock(mutex);
    return all[&place.history()];
  }
  /// The newest one, one of those before, or a new one.
  std::int64_t any(std::uint64_t chance) {
    const std::lock_guard lock(mutex_);
    if (chance % 4 == 0) newest_ = std::min(last_release, newest_ + 1 + static_cast<std::int64_t>(chance % 3));
    const std::int64_t age = chance % 5 == 0 ? 1 + static_cast<std::int64_t>(chance % 2) : 0;
    return std::max<std::int64_t>(1, newest_ - age);
  }

 private:
  std::mutex mutex_;
  std::int64_t newest_ = 1;
};

bool reads_what_it_changes(std::int64_t step) { return step % 3 == 0; }

std::string name_of_step(std::int64_t step) { return fmt::format("{}{}", step_prefix, step); }

void append_to_list(zkrecipes::OptimisticView& view, std::int64_t step) {
  const std::string list = view.get("/app/list");
  view.set("/app/list", fmt::format("{}{}{}", list, list.empty() ? "" : ",", step));
  view.create(zkclient::Path("/app") / name_of_step(step), "");
}

zkclient::Transaction changes_of(std::int64_t step) {
  const zkclient::Path mark = zkclient::Path("/app") / name_of_step(step);
  if (step > 1) return zkclient::Transaction().create(mark).set("/app/writes", name_of_step(step));
  return zkclient::Transaction().create("/app").create("/app/list").create("/app/writes").create(mark);
}

zkrecipes::MigrationSet steps_of(std::int64_t release) {
  zkrecipes::MigrationSet set("app");
  for (std::int64_t step = 1; step <= release; ++step) {
    if (reads_what_it_changes(step))
      set.add(name_of_step(step), [step](zkrecipes::OptimisticView& view) { append_to_list(view, step); });
    else
      set.add(name_of_step(step), changes_of(step));
  }
  return set;
}

std::int64_t number_of_step(std::string_view name) { return std::stoll(std::string(name.substr(step_prefix.size()))); }

bool is_too_old(const zkclient::Error& error) {
  return error.errc() == Errc::foreign_node && error.detail().find("by a newer program") != std::string::npos;
}

/// What no program may meet, whatever breaks.
bool is_wrong_of_migration(const zkclient::Error& error) {
  constexpr Errc wrong[] = {Errc::foreign_node, Errc::node_exists,      Errc::no_node,           Errc::bad_version,
                            Errc::not_empty,    Errc::invalid_argument, Errc::transaction_failed};
  return !is_too_old(error) && std::ranges::count(wrong, error.errc()) > 0;
}

void migrate(Place& place, zkrecipes::Migrations& migrations, std::int64_t release) try {
  const zkrecipes::MigrationSet set = steps_of(release);
  place.note("migrating", release);
  std::vector<std::int64_t> applied;
  for (const std::string& step : migrations.migrate(set, within(20s)))
    applied.push_back(number_of_step(step));
  place.note("migrated", release, 0, fmt::format("{}", fmt::join(applied, ",")));
  if (place.below(3) != 0) return;
  if (!migrations.pending(set, within(10s)).empty()) place.note("wrong", 0, 0, "steps are pending that were applied");
} catch (const zkclient::Error& error) {
  if (is_wrong_of_migration(error)) place.note("wrong", 0, 0, error.what());
  if (!is_too_old(error)) throw;
  place.note("too old", release);
}

void look_at_tree(Place& place, zkclient::Client& client) {
  place.note("looking");
  client.commit(zkclient::Transaction().check("/"), within(20s));  // No read behind it is older.
  std::set<std::int64_t> steps;
  for (const std::string& name : client.children("/app", within(10s)).names) {
    if (name.starts_with(step_prefix)) steps.insert(number_of_step(name));
  }
  place.note("sees", 0, 0, fmt::format("{}", fmt::join(steps, ",")));
}

}  // namespace

void run_migrations(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::Migrations migrations(client, "/locks", "/migrations", {.id = place.name()});
    for (int i = 0; i < 20 && !place.stopped(); ++i) {
      migrate(place, migrations, Releases::of(place).any(place.below(60)));
      if (place.below(3) == 0) look_at_tree(place, client);
      place.pause(300);
    }
  });
}

void look_at_migrations(Place& place) {
  zkclient::Client client(place.servers(), {.session_timeout = 10s});
  client.connect(within(60s));
  look_at_tree(place, client);
  place.note("list", 0, 0, client.get("/app/list", within(60s)).data);
  place.note("written", client.get("/app/writes", within(60s)).stat.version);
}

Faults check_migrations_workload(const History& history) {
  return all_of({check_migrations(history, reads_what_it_changes), check_progress(history, "migrated")});
}

}  // namespace storm
