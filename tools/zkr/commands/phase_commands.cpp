#include "tools/zkr/commands/phase_commands.hpp"

#include <sys/eventfd.h>

#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "tools/zkr/cli/output.hpp"

namespace zkr {

namespace {

constexpr const char* participant_ends = "the participant ends";

}  // namespace

using zkrecipes::CommitTransaction;
using zkrecipes::CommitVote;

PhaseCommands::PhaseCommands(std::vector<std::string> words, std::vector<std::string> environment,
                             CommandSeries& series)
    : words_(std::move(words)),
      environment_(std::move(environment)),
      series_(series),
      news_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

zkrecipes::CommitHandlers PhaseCommands::handlers() {
  return {.prepare = [this](const CommitTransaction& transaction) { return prepare(transaction); },
          .commit = [this](const CommitTransaction& transaction) { apply("commit", transaction); },
          .abort = [this](const CommitTransaction& transaction) { apply("abort", transaction); }};
}

CommitVote PhaseCommands::prepare(const CommitTransaction& transaction) {
  const int code = run("prepare", transaction);
  return code == 0 ? CommitVote::yes() : CommitVote::no(ended_with(code));
}

void PhaseCommands::apply(const char* phase, const CommitTransaction& transaction) {
  const int code = run(phase, transaction);
  if (code != 0) throw std::runtime_error(ended_with(code));
}

std::string PhaseCommands::ended_with(int code) const { return fmt::format("{} ended with {}", words_.front(), code); }

// --- The callback executor ---------------------------------------------------------------------------------------

int PhaseCommands::run(const char* phase, const CommitTransaction& transaction) {
  SeriesCommand command{.words = words_, .input = transaction.payload, .environment = environment_};
  command.environment.push_back(std::string("ZKR_PHASE=") + phase);
  command.environment.push_back("ZKR_TRANSACTION=" + transaction.id);
  std::unique_lock lock(mutex_);
  if (closed_) throw std::runtime_error(participant_ends);
  wanted_ = std::move(command);
  ::eventfd_write(news_.get(), 1);
  answered_.wait(lock, [this] { return code_ || refused_; });
  if (const auto refused = std::exchange(refused_, nullptr)) std::rethrow_exception(refused);
  return *std::exchange(code_, std::nullopt);
}

// --- The first thread ---------------------------------------------------------------------------------------------

void PhaseCommands::work() {
  drain(news_.get());
  if (const auto code = series_.take_code()) {
    if (!series_.end_leftovers())
      say(words_.front() + ": what it has left behind may not be killed by us, and runs on");
    answer(code);
  }
  if (!series_.runs()) start_wanted();
}

void PhaseCommands::start_wanted() {
  std::optional<SeriesCommand> wanted;
  {
    const std::lock_guard lock(mutex_);
    wanted = std::exchange(wanted_, std::nullopt);
  }
  if (!wanted) return;
  try {
    series_.start(*wanted);
  } catch (const Failure& failure) {
    failure_ = failure;
    answer({}, std::current_exception());
  }
}

void PhaseCommands::answer(std::optional<int> code, std::exception_ptr refused) {
  const std::lock_guard lock(mutex_);
  code_ = code;
  refused_ = std::move(refused);
  answered_.notify_all();
}

void PhaseCommands::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  if (!std::exchange(wanted_, std::nullopt)) return;
  refused_ = std::make_exception_ptr(std::runtime_error(participant_ends));
  answered_.notify_all();
}

void PhaseCommands::give_up() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  refused_ = std::make_exception_ptr(std::runtime_error(participant_ends));
  answered_.notify_all();
}

}  // namespace zkr
