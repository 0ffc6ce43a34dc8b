#include "storm/workloads/transfers.hpp"

#include <atomic>
#include <memory>
#include <vector>

#include <zkrecipes/id_blocks.hpp>
#include <zkrecipes/optimistic.hpp>
#include <zkrecipes/worker_id.hpp>

#include "storm/checkers/agreements.hpp"
#include "storm/workloads/sessions.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t accounts = 4;
constexpr std::int64_t first_balance = 100;
constexpr std::int64_t change_of_account = 1'000'000;

/// In a node as "<balance> <changes>".
struct Account {
  std::int64_t balance = first_balance;
  std::int64_t changes = 0;
};

std::string written(const Account& account) {
  return std::to_string(account.balance) + " " + std::to_string(account.changes);
}
Account account_of(const std::string& text) { return {std::stoll(text), std::stoll(text.substr(text.find(' ')))}; }
zkclient::Path account_path(std::uint64_t number) {
  return zkclient::Path("/accounts") / ("a" + std::to_string(number));
}

void open_accounts(zkrecipes::Optimistic& optimistic) {
  optimistic.atomically(
      [](zkrecipes::OptimisticView& view) {
        if (view.exists("/accounts")) return;
        view.create("/accounts", "");
        for (std::uint64_t i = 0; i < accounts; ++i)
          view.create(account_path(i), written({}));
      },
      within(30s));
}

void transfer(Place& place, zkrecipes::Optimistic& optimistic) {
  const std::uint64_t from = place.below(accounts);
  const std::uint64_t to = (from + 1 + place.below(accounts - 1)) % accounts;
  const std::int64_t amount = 1 + static_cast<std::int64_t>(place.below(20));
  Account payer;
  Account receiver;
  place.note("moving");
  try {
    optimistic.atomically(
        [&](zkrecipes::OptimisticView& view) {
          payer = account_of(view.get(account_path(from)));
          place.pause(5);
          receiver = account_of(view.get(account_path(to)));
          payer = {payer.balance - amount, payer.changes + 1};
          receiver = {receiver.balance + amount, receiver.changes + 1};
          view.set(account_path(from), written(payer));
          view.set(account_path(to), written(receiver));
        },
        within(15s));
  } catch (const zkclient::Error& error) {
    if (error.code() != zkclient::ErrorKind::in_doubt) place.note("not moved");
    throw;
  }
  place.note("moved", static_cast<std::int64_t>(from) * change_of_account + payer.changes,
             static_cast<std::int64_t>(to) * change_of_account + receiver.changes);
}

void add_up(Place& place, zkrecipes::Optimistic& optimistic) {
  std::vector<Account> seen;
  place.note("looking");
  optimistic.atomically(
      [&](zkrecipes::OptimisticView& view) {
        seen.clear();
        for (std::uint64_t i = 0; i < accounts; ++i)
          seen.push_back(account_of(view.get(account_path(i))));
      },
      within(15s));
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    sum += seen[i].balance;
    place.note("seen", static_cast<std::int64_t>(i) * change_of_account + seen[i].changes);
  }
  place.note("sum", sum);
}

}  // namespace

void run_transfers(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::Optimistic optimistic(client, "/transfers");
    open_accounts(optimistic);
    for (int i = 0; i < 30 && !place.stopped(); ++i) {
      if (place.below(4) == 0) {
        add_up(place, optimistic);
      } else {
        transfer(place, optimistic);
      }
      place.pause(400);
    }
  });
}

void look_at_transfers(Place& place) {
  zkclient::Client client(place.servers(), {.session_timeout = 10s});
  client.connect(within(60s));
  client.sync("/accounts", within(60s));
  std::int64_t sum = 0;
  for (std::uint64_t i = 0; i < accounts; ++i) {
    const Account account = account_of(client.get(account_path(i), within(60s)).data);
    sum += account.balance;
    place.note("changes", static_cast<std::int64_t>(i), account.changes);
  }
  place.note("sum", sum);
}

Faults check_transfers_workload(const History& history) {
  return all_of({check_transfers(history, first_balance * static_cast<std::int64_t>(accounts)),
                 check_progress(history, "moved"), check_progress(history, "sum")});
}

// --- Numbers -------------------------------------------------------------------------------------

void run_ids(Place& place) {
  std::int64_t maker = place.now().count() / 1'000'000 * 1000;  // A later life has greater ones.
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::IdBlocks blocks(client, "/ids/blocks", {.block = 1 + static_cast<std::int64_t>(place.below(50))});
    // A clock that is wrong, and steps.
    const auto wrong_by = std::make_shared<std::atomic<std::int64_t>>(static_cast<std::int64_t>(place.below(5000)));
    zkrecipes::WorkerIds workers(client, "/ids/workers",
                                 {.layout = {.worker_bits = 2}, .ahead = 1s, .clock = [wrong_by] {
                                    return std::chrono::system_clock::now() - std::chrono::milliseconds(*wrong_by);
                                  }});
    zkrecipes::WorkerId worker = workers.acquire(within(30s));
    ++maker;
    for (int i = 0; i < 100 && !place.stopped(); ++i) {
      if (place.below(20) == 0) *wrong_by = static_cast<std::int64_t>(place.below(10'000));
      place.note("id", blocks.next(within(15s)), maker, "block");
      for (std::uint64_t ids = place.below(4); ids > 0; --ids)
        place.note("id", worker.next(), maker, "worker");
      place.pause(150);
    }
    if (place.below(2) == 0) worker.release(within(5s));
  });
}

void look_at_ids(Place& place) { place.note("looked"); }

Faults check_ids_workload(const History& history) {
  return all_of({check_ids(history), check_progress(history, "id")});
}

}  // namespace storm
