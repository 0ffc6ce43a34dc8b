#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>

#include "zktesting/detail/fault.hpp"
#include "zktesting/detail/frames.hpp"
#include "zktesting/detail/relay.hpp"

namespace zktesting::detail {

/// One client's connection through a relay, and its counterpart to the target. Everything happens
/// on the loop's thread.
///
/// Sockets are read and written only when they are ready (never with an operation pending), so that
/// a stall takes effect at once.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Relay& relay, UniqueFd client);

  /// Does whatever can be done now: to be called when a stall has begun or ended.
  void proceed();
  /// Closes both sides with RST.
  void reset();

 private:
  struct Chunk {
    std::string bytes;
    std::size_t written = 0;
    Clock::time_point due;
  };
  /// One direction.
  struct Half {
    Half(Way which, UniqueFd& source, UniqueFd& sink) : way(which), from(source), to(sink) {}

    const Way way;
    UniqueFd& from;
    UniqueFd& to;
    std::string input;         ///< Read, not yet looked at.
    std::deque<Chunk> output;  ///< To be written.
    std::size_t output_size = 0;
    FrameScanner scanner;
    std::shared_ptr<FaultState> held;
    bool pass_next = false;   ///< The next frame was held already.
    bool discarding = false;  ///< Incoming bytes are thrown away.
    bool awaiting_readable = false;
    bool awaiting_writable = false;
    bool awaiting_due = false;
    bool ended = false;  ///< The source will send no more.
    bool shut = false;   ///< The sink was told so.
    EventLoop::TimerId timer = 0;
  };
  enum class Verdict { pass, hold, drop };
  enum class State { fresh, connecting, open, closed };

  void connect();
  void finish_connect();
  void handle_refusal();
  void advance(Half& half);
  void read(Half& half);
  void await_readable(Half& half);
  void scan(Half& half);
  void enqueue(Half& half, std::size_t size);
  void write(Half& half);
  void await_due(Half& half, Clock::time_point due);
  void propagate_end(Half& half);
  bool rewrite_announcement(std::string& input);

  Verdict judge_request(Half& half, std::size_t position);
  Verdict judge_reply(Half& half, std::size_t position);
  Verdict judge_event(Half& half, std::size_t position);
  void hold(Half& half, const std::shared_ptr<FaultState>& fault);
  void release_held();
  void doom(const std::shared_ptr<FaultState>& fault);
  void check_doom();
  void disconnect(UniqueFd& socket, bool with_reset);
  void close(bool with_reset = false);
  void disconnect_both(bool with_reset);

  Relay& relay_;  ///< Not to be used once closed.
  EventLoop& loop_;
  UniqueFd client_;
  UniqueFd server_;
  Half to_server_;
  Half to_client_;
  State state_ = State::fresh;
  bool opaque_;
  bool announced_;
  bool was_held_ = false;                                  ///< It came during a stall.
  std::unordered_map<std::int32_t, RequestType> pending_;  ///< By xid.
  bool connect_pending_ = false;
  std::shared_ptr<FaultState> doom_;  ///< The fault that this connection will die of.
  EventLoop::TimerId doom_timer_ = 0;
  Clock::time_point connect_deadline_;
  EventLoop::TimerId connect_timer_ = 0;
};

}  // namespace zktesting::detail
