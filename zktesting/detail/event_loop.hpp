#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <thread>

namespace zktesting::detail {

/// One thread that runs one io_context.
class EventLoop {
 public:
  EventLoop() : work_(context_.get_executor()), thread_([this] { context_.run(); }) {}
  ~EventLoop() {
    work_.reset();
    thread_.join();
  }
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  boost::asio::io_context& context() { return context_; }

  /// Runs `function` on the loop's thread and returns what it returns, or throws what it throws.
  /// Not to be called on that thread.
  template <class Function>
  auto run(Function function) {
    std::packaged_task<decltype(function())()> task(std::move(function));
    auto result = task.get_future();
    boost::asio::post(context_, [moved = std::move(task)]() mutable { moved(); });
    return result.get();
  }

 private:
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;
};

}  // namespace zktesting::detail
