#pragma once

#include <algorithm>
#include <deque>
#include <map>

#include "simulation/servers/coordinator.hpp"

namespace zktesting::simulated {

/// The order of each session's requests, as the real CommitProcessor keeps it: a read behind a write of the same session
/// waits until that is committed.
class SessionLine {
 public:
  [[nodiscard]] bool empty(SessionId session) const { return !waiting_.contains(session); }
  void add(SessionId session, JobPtr job, bool needs_leader) {
    waiting_[session].push_back({std::move(job), needs_leader});
  }

  /// The job at the head of its session's line that this transaction answers, if it is one of this server's.
  JobPtr take(const Entry& entry) {
    const auto line = waiting_.find(entry.txn->session);
    if (line == waiting_.end()) return nullptr;
    if (answers(entry, line->second.front())) return take_first(line);
    forget(line->second, entry);
    return nullptr;
  }
  JobPtr take_sync(const Job& sync) {
    const auto line = waiting_.find(sync.caller.session);
    if (line == waiting_.end() || line->second.front().job.get() != &sync) return nullptr;
    return take_first(line);
  }
  /// The read at the head of the line, if there is one.
  JobPtr take_read(SessionId session) {
    const auto line = waiting_.find(session);
    return line == waiting_.end() || line->second.front().needs_leader ? nullptr : take_first(line);
  }
  [[nodiscard]] std::size_t size() const {
    std::size_t size = 0;
    for (const auto& [session, line] : waiting_)
      size += line.size();
    return size;
  }
  void clear() { waiting_.clear(); }

 private:
  struct Place {
    JobPtr job;
    bool needs_leader = false;
  };
  using Lines = std::map<SessionId, std::deque<Place>>;

  // One that came by way of a follower may have been proposed before one that is ahead of it in the line.
  static void forget(std::deque<Place>& line, const Entry& entry) {
    const auto found = std::find_if(line.begin(), line.end(), [&](const Place& place) {
      return place.job->connection == 0 && answers(entry, place);
    });
    if (found != line.end()) line.erase(found);
  }
  static bool answers(const Entry& entry, const Place& place) {
    const Request& request = place.job->request;
    return place.needs_leader && request.xid == entry.xid && request.op == entry.asked;
  }
  JobPtr take_first(Lines::iterator line) {
    JobPtr job = std::move(line->second.front().job);
    line->second.pop_front();
    if (line->second.empty()) waiting_.erase(line);
    return job;
  }

  Lines waiting_;
};

}  // namespace zktesting::simulated
