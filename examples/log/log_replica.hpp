#pragma once

// A replica of a log. zkrecipes::ReplicaGroup says who may write, and whose confirmation an entry needs. The entries go
// over plain TCP, where anybody may pose as the primary.
// A client sends lines to a member:
//   append CLIENT NUMBER TEXT   ok POSITION: all that are in sync have it, and once, however often it is sent.
//                               no: ask another member. Whether the log has it, or will have it, is not known.
//   read POSITION               ok EPOCH CLIENT NUMBER TEXT; end: it knows of no such acknowledged entry; no
//   state                       ok ROLE COUNT STORAGE
// The primary sends some records, from a position on, with the sum of all before it, and how many are acknowledged:
//   replicate RECORDS EPOCH ACKNOWLEDGED POSITION SUM
//                               has STORAGE COUNT: so many are durable, and equal the primary's
//                               differs STORAGE COUNT: before POSITION it has something else, or less
//                               refused STORAGE COUNT: it has accepted a higher epoch
// Who has something else in a position cuts off all from there on. A new primary begins with an entry of its own, so
// every tail that it lacks differs. A message that comes late, or twice, cuts off nothing that the primary has.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <zkclient/client.hpp>
#include <zkclient/clock.hpp>
#include <zkrecipes/replica_group.hpp>

#include "connection.hpp"
#include "log.hpp"

namespace logs {

constexpr auto beat = std::chrono::milliseconds(200);  // So often the primary sends something, or more often.

class LogReplica {
 public:
  /// `group`: the path of the ReplicaGroup. `address`: where the other members find this one. `prefix` begins each line
  /// that is sent to them, or printed: where one process has several logs, it names this one.
  LogReplica(Log& log, const zkclient::Client& client, const zkclient::Path& group, const std::string& id,
             const std::string& address, std::string prefix = "")
      : log_(log),
        prefix_(std::move(prefix)),
        group_(client, group, {id, log.storage(), address},
               {[this](const auto& term) { lead(term); }, [this](const auto& term) { log_.accept(term.epoch); }},
               {.minimum = 2}),
        tending_([this](const std::stop_token& stop) { tend(stop); }) {}

  /// To a line without the prefix.
  std::string answer(Words& words, Connection& connection) {
    std::string verb;
    words >> verb;
    if (verb == "append") return append(words);
    if (verb == "read") return read(words);
    if (verb == "replicate") return replicate(words, connection);
    if (verb == "state") return fmt::format("ok {} {} {}", to_string(group_.role()), log_.count(), log_.storage());
    throw std::invalid_argument("no such verb");
  }
  /// Begins to leave: what it answers ends soon, and another member leads. Does not wait.
  void leave() {
    group_.async_leave([](const zkclient::Result<void>&) {});
  }

 private:
  /// As the primary: tells the others what is acknowledged, takes out who does not answer, and takes in who has come.
  void tend(const std::stop_token& stop) {
    for (; !stop.stop_requested(); std::this_thread::sleep_for(beat)) {
      // become_primary() has returned, and the lease is valid; but maybe too few are in sync.
      if (group_.role() != zkrecipes::ReplicaRole::primary || !group_.may_serve_reads()) continue;
      std::unique_lock lock(writing_);
      const std::size_t count = log_.count();
      if (everyone_has_all() && group_.may_write()) log_.acknowledge(count);
      lock.unlock();
      for (const auto& member : group_.members())
        take_in({member.id, member.storage});
    }
  }
  std::string read(Words& words) const {
    std::size_t position = 0;
    words >> position;
    const std::string answer = log_.read(position);
    return group_.may_serve_reads() ? answer : "no";  // In this order.
  }
  std::string replicate(Words& words, Connection& connection) {
    std::size_t count = 0;
    words >> count;
    std::vector<std::string> records(std::min(count, most_records));
    for (std::string& record : records)
      record = connection.line(reply_time);
    return log_.take(words, records);
  }
  std::string append(Words& words) {
    const std::string text = words.rest();
    if (text.size() > longest_text || text.starts_with("-")) throw std::invalid_argument("too long, or not a client's");
    const std::lock_guard lock(writing_);
    if (!group_.may_write()) return "no";  // If it may, then in the epoch of which lead() was told last.
    const std::optional<std::size_t> position = log_.append(epoch_, text);
    if (!position || !everyone_has_all()) return "no";
    const auto now = zkclient::BootClock::now().time_since_epoch();
    if (!group_.may_write()) return "no";  // If it may, then at that time, too.
    log_.acknowledge(*position + 1);
    std::cout << fmt::format("{}acknowledged {} {} {}\n", prefix_, epoch_, *position, now.count()) << std::flush;
    return fmt::format("ok {}", *position);
  }
  void lead(const zkrecipes::PrimaryTerm& term) {
    const std::lock_guard lock(writing_);
    peers_.clear();
    epoch_ = term.epoch;
    log_.append(epoch_, fmt::format("- {} begins", term.epoch));  // From now on no other primary changes this log.
    while (!everyone_has_all() && !term.lost.stop_requested())
      std::this_thread::sleep_for(beat);
  }
  /// All that are in sync, as of now, have what this log has. Who does not answer is taken out.
  bool everyone_has_all() try {
    for (;;) {
      const std::vector<zkrecipes::InSyncReplica> all = group_.in_sync();
      const auto fails = [&](const auto& one) { return !catches_up(peers_[one.storage], one); };
      const auto failed = std::find_if(all.begin(), all.end(), fails);
      if (failed == all.end() && group_.in_sync() == all) return !all.empty();
      if (failed == all.end()) continue;
      group_.shrink({failed->id});
      peers_.erase(failed->storage);
    }
  } catch (const zkclient::Error&) {
    return false;  // It is not the primary any more.
  }
  /// Sends the last entry, or all from where the logs are equal, and hears that the member has them.
  bool catches_up(std::unique_ptr<Connection>& connection, const zkrecipes::InSyncReplica& replica) try {
    if (replica.storage == log_.storage()) return true;
    for (const auto& member : group_.members()) {
      if (!connection && member.storage == replica.storage) connection = std::make_unique<Connection>(member.address);
    }
    if (!connection) return false;  // It is not there.
    std::string verdict, storage;
    std::size_t count = 0, next = log_.count() - 1;
    do {
      connection->send(prefix_ + log_.message(epoch_, next));
      Words(connection->line(reply_time)) >> verdict >> storage >> count;
      const bool good = verdict == "has" || (verdict == "differs" && next > 0);
      if (!good || storage != replica.storage) throw std::runtime_error("refused, or another one has its address now");
      next = verdict == "has" ? count : std::min(count, next / 2);
    } while (next < log_.count());
    return true;
  } catch (const std::exception&) {
    connection.reset();
    return false;
  }
  /// Copies the log while clients write; then the last of it, and expand(), in one go.
  void take_in(const zkrecipes::InSyncReplica& replica) try {
    const std::vector<zkrecipes::InSyncReplica> all = group_.in_sync();
    const auto same = [&](const auto& one) { return one.id == replica.id && one.storage == replica.storage; };
    std::unique_ptr<Connection> connection;
    if (all.empty() || std::any_of(all.begin(), all.end(), same) || !catches_up(connection, replica)) return;
    const std::lock_guard lock(writing_);
    if (catches_up(connection, replica)) group_.expand(epoch_, replica.id, replica.storage);
  } catch (const zkclient::Error&) {  // Again at the next beat, if it still is the primary.
  }

  Log& log_;
  const std::string prefix_;
  std::mutex writing_;                                        // Of who appends, or changes who is in sync.
  std::atomic<std::int64_t> epoch_ = 0;                       // In which it is the primary, or was.
  std::map<std::string, std::unique_ptr<Connection>> peers_;  // By storage.
  zkrecipes::ReplicaGroup group_;                             // Its handlers use all of these.
  std::jthread tending_;                                      // The first to go: it uses the group.
};

}  // namespace logs
