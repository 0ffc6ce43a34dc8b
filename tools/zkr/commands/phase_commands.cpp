#include "tools/zkr/commands/phase_commands.hpp"

#include <sys/eventfd.h>

#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace zkr {

using zkrecipes::CommitTransaction;
using zkrecipes::CommitVote;

PhaseCommands::PhaseCommands(std::vector<std::string> words, std::vector<std::string> environment, const sigset_t& mask,
                             int inherited)
    : words_(std::move(words)),
      environment_(std::move(environment)),
      mask_(mask),
      inherited_(inherited),
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

int PhaseCommands::run(const char* phase, const CommitTransaction& transaction) {
  start(phase, transaction);
  const int code = command_->wait();  // This thread alone starts and ends it.
  const std::lock_guard lock(mutex_);
  command_.reset();
  return code;
}

void PhaseCommands::start(const char* phase, const CommitTransaction& transaction) {
  std::vector<std::string> environment = environment_;
  environment.push_back(std::string("ZKR_PHASE=") + phase);
  environment.push_back("ZKR_TRANSACTION=" + transaction.id);
  const std::lock_guard lock(mutex_);
  if (told_to_end_ || failure_) throw std::runtime_error("the participant ends");
  try {
    command_.emplace(SpawnRequest{.words = words_,
                                  .input = transaction.payload,
                                  .environment = std::move(environment),
                                  .mask = mask_,
                                  .inherited = inherited_});
  } catch (const Failure& failure) {
    failure_ = failure;
    ::eventfd_write(news_.get(), 1);
    throw;
  }
}

void PhaseCommands::signal(int number, bool from_terminal) {
  const std::lock_guard lock(mutex_);
  told_to_end_ = true;
  if (command_ && !from_terminal) command_->signal(number);
}

std::optional<Failure> PhaseCommands::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace zkr
