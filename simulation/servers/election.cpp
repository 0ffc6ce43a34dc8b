#include "simulation/servers/election.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace zktesting::simulated {

using namespace std::chrono_literals;

namespace {
constexpr Nanos finalize_wait = 200ms;
constexpr Nanos most_patience = 60s;
}  // namespace

Election::Election(Process& process, Host self, int servers, Hooks hooks)
    : self_(self),
      servers_(servers),
      hooks_(std::move(hooks)),
      finalize_(process, lane::election),
      resend_(process, lane::election) {}

bool Election::better(const Vote& vote, const Vote& other) {
  return std::tie(vote.epoch, vote.zxid, vote.leader) > std::tie(other.epoch, other.zxid, other.leader);
}

void Election::look(const Vote& own) {
  standing_ = Standing::looking;
  finalizing_ = false;
  ++round_;
  own_ = vote_ = own;
  votes_.clear();
  outsiders_.clear();
  patience_ = finalize_wait;
  tell_all();
  ask_again();
}

Notification Election::mine() const { return {self_, standing_, round_, vote_}; }

void Election::tell_all() {
  votes_[self_] = mine();
  for (Host host = 1; host <= servers_; ++host) {
    if (host != self_) hooks_.send(host, mine());
  }
}

void Election::ask_again() {
  resend_.set(patience_, [this] {
    patience_ = std::min(2 * patience_, most_patience);
    if (!finalizing_) tell_all();
    ask_again();
  });
}

void Election::hear(const Notification& heard) {
  if (standing_ != Standing::looking) {
    if (heard.standing == Standing::looking) hooks_.send(heard.from, mine());
    return;
  }
  if (heard.standing == Standing::looking)
    hear_looking(heard);
  else
    hear_settled(heard);
}

void Election::hear_looking(const Notification& heard) {
  if (heard.round < round_) return hooks_.send(heard.from, mine());
  bool changed = false;
  if (heard.round > round_) {
    round_ = heard.round;
    votes_.clear();
    vote_ = better(heard.vote, own_) ? heard.vote : own_;
    changed = true;
  } else if (better(heard.vote, vote_)) {
    vote_ = heard.vote;
    changed = true;
  }
  votes_[heard.from] = heard;
  if (changed) tell_all();
  if (!changed && finalizing_ && quorum_for(vote_)) return;
  finalize_.stop();
  finalizing_ = quorum_for(vote_);
  if (finalizing_) finalize_.set(finalize_wait, [this] { settle(vote_); });
}

void Election::hear_settled(const Notification& heard) {
  if (heard.round == round_) {
    votes_[heard.from] = heard;
    if (settled_quorum_for(heard, votes_) && leads(heard, votes_)) return settle(heard.vote);
  }
  outsiders_[heard.from] = heard;
  if (!settled_quorum_for(heard, outsiders_) || !leads(heard, outsiders_)) return;
  round_ = heard.round;
  settle(heard.vote);
}

bool Election::quorum_for(const Vote& vote) const {
  const auto agreeing = std::count_if(votes_.begin(), votes_.end(), [&](const auto& entry) {
    return entry.second.standing == Standing::looking && entry.second.vote == vote;
  });
  return agreeing > servers_ / 2;
}

bool Election::settled_quorum_for(const Notification& heard, const std::map<Host, Notification>& votes) const {
  const auto agreeing = std::count_if(votes.begin(), votes.end(), [&](const auto& entry) {
    const Notification& other = entry.second;
    if (other.standing == Standing::looking) return other.round == heard.round && other.vote == heard.vote;
    return other.vote.leader == heard.vote.leader && other.vote.epoch == heard.vote.epoch;
  });
  return agreeing > servers_ / 2;
}

bool Election::leads(const Notification& heard, const std::map<Host, Notification>& votes) const {
  if (heard.vote.leader == self_) return heard.round == round_;
  const auto leader = votes.find(heard.vote.leader);
  return leader != votes.end() && leader->second.standing == Standing::leading;
}

void Election::settle(const Vote& vote) {
  finalize_.stop();
  resend_.stop();
  finalizing_ = false;
  vote_ = vote;
  standing_ = vote.leader == self_ ? Standing::leading : Standing::following;
  hooks_.elected(vote);
}

}  // namespace zktesting::simulated
