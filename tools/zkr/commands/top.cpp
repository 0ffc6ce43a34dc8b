// top: paths, live.

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tools/zkr/cli/duration.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/changes.hpp"
#include "tools/zkr/commands/commands.hpp"
#include "tools/zkr/commands/revocation.hpp"
#include "tools/zkr/commands/top_looker.hpp"
#include "tools/zkr/commands/top_screen.hpp"
#include "tools/zkr/commands/top_view.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;

constexpr auto shortest_interval = 10ms;  // Shorter ones would only load the servers.

struct TopOptions {
  std::vector<std::string> paths;
  std::optional<std::chrono::nanoseconds> interval;
  std::optional<unsigned> looks;
  bool batch = false;
};

// --- Without a screen ---------------------------------------------------------------------------------------------

void write_rows(const Context& context, const std::vector<TopRow>& rows) {
  if (context.json) {
    for (const TopRow& row : rows)
      write_line(top_json(row));
    return;
  }
  for (const std::string& line : top_lines(rows))
    write_line(line);
}

int run_batch(const Context& context, TopLooker& looker, const std::optional<unsigned>& looks) {
  for (unsigned look = 0; !looks || look < *looks; ++look) {
    if (look > 0) std::this_thread::sleep_for(looker.interval());
    if (look > 0 && !context.json) write_line("");
    write_rows(context, looker.look());
  }
  return exit_success;
}

// --- With one -----------------------------------------------------------------------------------------------------

/// Looks on a thread of its own, so that keys are heeded while a server keeps silent.
class TopThread {
 public:
  explicit TopThread(TopLooker& looker)
      : news_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        thread_([this, &looker](const std::stop_token& stop) { work(looker, stop); }) {}

  /// Readable when there are rows that were not taken.
  int get() const { return news_.get(); }
  std::vector<TopRow> take() {
    eventfd_t count = 0;
    ::eventfd_read(news_.get(), &count);
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    return rows_;
  }

 private:
  void work(TopLooker& looker, const std::stop_token& stop) {
    try {
      while (!stop.stop_requested()) {
        std::vector<TopRow> rows = looker.look({.stop = stop});
        std::unique_lock lock(mutex_);
        rows_ = std::move(rows);
        ::eventfd_write(news_.get(), 1);
        pause_.wait_for(lock, stop, looker.interval(), [] { return false; });
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      ::eventfd_write(news_.get(), 1);
    }
  }

  Descriptor news_;
  std::mutex mutex_;
  std::condition_variable_any pause_;
  std::vector<TopRow> rows_;
  std::exception_ptr failure_;
  std::jthread thread_;  // The last member: it uses the others.
};

std::string revoke_text(const zkclient::Client& client, const std::string& path, const std::stop_token& stop) {
  try {
    const auto outcome = revoke_any(client, zkclient::Path(path), {}, {.deadline = 5s, .stop = stop});
    return printable(path) + ": " + zkrecipes::to_string(outcome);
  } catch (const zkclient::Error& error) {
    return error.what();
  }
}

// On a thread of its own: a signal ends the wait for a server that keeps silent.
std::string ask_to_give_way(const zkclient::Client& client, const std::string& path, const EndingSignals& signals) {
  const Descriptor asked(::eventfd(0, EFD_CLOEXEC));
  std::string text;
  {
    const std::jthread asking([&](const std::stop_token& stop) {
      text = revoke_text(client, path, stop);
      ::eventfd_write(asked.get(), 1);
    });
    while (!readable_now(signals.get()) && !readable_now(asked.get()))  // Another size of the terminal wakes it, too.
      wait_for_any({signals.get(), asked.get()});
  }
  return text;
}

/// What has come: a signal that ends the program, or keys and rows.
bool signal_came(const TopThread& rows, const EndingSignals& signals) {
  std::array<pollfd, 3> polled{{{.fd = signals.get(), .events = POLLIN, .revents = 0},
                                {.fd = rows.get(), .events = POLLIN, .revents = 0},
                                {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0}}};
  ::poll(polled.data(), polled.size(), -1);  // Also ends when the terminal has got another size.
  return polled[0].revents != 0 || (polled[2].revents & (POLLHUP | POLLERR)) != 0;
}

void show_until_the_end(const TopLooker& looker, TopThread& rows, const EndingSignals& signals) {
  TopScreen screen;
  TopView view;
  for (;;) {
    view.show(rows.take());
    screen.draw(view.draw(screen.height()));
    if (signal_came(rows, signals)) return;
    while (const auto key = screen.key()) {
      const TopView::Wish wish = view.press(*key);
      if (wish.quit) return;
      if (wish.revoke.empty()) continue;
      screen.draw(view.draw(screen.height()));
      view.tell(ask_to_give_way(looker.client(), wish.revoke, signals));
    }
  }
}

int run_on_screen(TopLooker& looker, const EndingSignals& signals) {
  {
    TopThread rows(looker);
    show_until_the_end(looker, rows, signals);
  }
  pollfd polled{.fd = signals.get(), .events = POLLIN, .revents = 0};
  if (::poll(&polled, 1, 0) == 1) die_of(signals.take().number);
  return exit_success;
}

int run_top(const Context& context, const TopOptions& options) {
  std::vector<zkclient::Path> paths(options.paths.begin(), options.paths.end());
  const std::chrono::nanoseconds interval = options.interval.value_or(2s);
  if (interval < shortest_interval) throw Failure(exit_usage, "--every: 10ms at least");
  const bool terminal = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
  if (options.batch || options.looks || context.json || !terminal) {
    TopLooker looker(connect_to_look(context), std::move(paths), interval);
    return run_batch(context, looker, options.looks);
  }
  const EndingSignals signals;
  TopLooker looker(connect_to_look(context), std::move(paths), interval);
  return run_on_screen(looker, signals);
}

}  // namespace

void add_top(CLI::App& app, Context& context) {
  const auto command = add_subcommand(
      app, context, "top", "Who holds and who waits at paths, and at the children of folders, live", run_top);
  TopOptions& options = *command.options;
  command->add_option("PATH", options.paths, "Recipes' paths, or folders of them")->required();
  add_duration(*command.app, "--every", options.interval,
               "The time between two looks; 2s. Long lists: five times that");
  command->add_flag("--batch", options.batch, "Lines instead of a screen, as without a terminal");
  command->add_option("--looks", options.looks, "End after so many, without a screen")->type_name("N");
}

}  // namespace zkr
