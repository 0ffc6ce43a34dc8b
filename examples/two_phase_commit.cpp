// A transfer between two accounts, each a file of its own. The process that coordinates it is killed in the middle;
// another one finishes it.
//   two_phase_commit [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <zkclient/client.hpp>
#include <zkrecipes/two_phase_commit.hpp>

using zkrecipes::CommitTransaction;
using zkrecipes::CommitVote;

namespace {

/// An account: its balance, and the last transaction that changed it. Replaced as a whole, so that a crash leaves
/// either the old one or the new one. (Of a real one you would keep all ids, or number them.)
class Account {
 public:
  Account(std::filesystem::path file, int balance) : file_(std::move(file)), balance_(balance) { write("opened"); }

  int balance() const { return balance_; }
  bool has(int amount) const { return balance_ >= amount; }
  void add(int amount, const std::string& transaction) {
    if (transaction == last_) return;  // Done already: this is what makes it idempotent.
    balance_ += amount;
    write(transaction);
  }

 private:
  void write(const std::string& transaction) {
    const std::filesystem::path next = file_.string() + ".new";
    std::ofstream(next) << balance_ << " " << transaction << "\n";
    std::filesystem::rename(next, file_);
    last_ = transaction;
  }
  const std::filesystem::path file_;
  int balance_;
  std::string last_;
};

/// The process that will not live to see the end.
pid_t fork_coordinator(const char* server, int wait_for) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  char go = 0;
  if (::read(wait_for, &go, 1) != 1) ::_exit(0);
  const zkclient::Client client(server, {.session_timeout = std::chrono::seconds(2)});
  zkrecipes::CommitCoordinator coordinator(client, "/examples/bank");
  (void)coordinator.run({"alice", "bob"}, "30");
  ::_exit(0);
}

}  // namespace

int main(int argc, char** argv) try {
  const char* given = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const char* server = given != nullptr ? given : "127.0.0.1:2181";
  int start[2];
  if (::pipe(start) != 0) return EXIT_FAILURE;
  const pid_t doomed = fork_coordinator(server, start[0]);  // Before there are threads in this process.
  std::string folder = (std::filesystem::temp_directory_path() / "bank-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return EXIT_FAILURE;
  const zkclient::Client client(server);
  client.connect();  // Throws if no server answers.

  Account alice(folder + "/alice", 100);
  Account bob(folder + "/bob", 100);
  zkrecipes::CommitHandlers pays;
  pays.prepare = [&](const CommitTransaction& transaction) {
    ::kill(doomed, SIGKILL);  // The coordinator is gone, in the middle of its transaction.
    std::printf("alice is asked for %s, and the coordinator dies\n", transaction.payload.c_str());
    return alice.has(std::stoi(transaction.payload)) ? CommitVote::yes() : CommitVote::no("no funds");
  };
  pays.commit = [&](const CommitTransaction& transaction) {
    alice.add(-std::stoi(transaction.payload), transaction.id);
  };
  pays.abort = [](const CommitTransaction&) {};
  zkrecipes::CommitHandlers receives;
  receives.prepare = [](const CommitTransaction&) { return CommitVote::yes(); };
  receives.commit = [&](const CommitTransaction& transaction) {
    bob.add(std::stoi(transaction.payload), transaction.id);
  };
  receives.abort = [](const CommitTransaction&) {};

  zkrecipes::CommitParticipant first(client, "/examples/bank", "alice",
                                     std::make_shared<zkrecipes::FileLog>(folder + "/alice.log"));
  zkrecipes::CommitParticipant second(client, "/examples/bank", "bob",
                                      std::make_shared<zkrecipes::FileLog>(folder + "/bob.log"));
  std::stop_source stop;
  std::jthread serve_first([&] { first.serve(std::move(pays), {.stop = stop.get_token()}); });
  std::jthread serve_second([&] { second.serve(std::move(receives), {.stop = stop.get_token()}); });
  for (const char* name : {"alice", "bob"}) {
    while (!client.exists(zkclient::Path("/examples/bank/participants") / name))
      std::this_thread::yield();
  }

  // Go. Afterwards no process coordinates the transaction, until one recovers it (any may).
  if (::write(start[1], "!", 1) != 1) return EXIT_FAILURE;
  ::waitpid(doomed, nullptr, 0);
  zkrecipes::CommitCoordinator successor(client, "/examples/bank");
  std::vector<zkrecipes::CommitOutcome> outcomes;
  while (!successor.transactions().empty()) {
    for (auto& outcome : successor.recover())
      outcomes.push_back(std::move(outcome));
    // The transaction has a coordinator until the dead process's session is over.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  stop.request_stop();
  serve_first.join();
  serve_second.join();
  for (const auto& outcome : outcomes)
    std::printf("recovered: %s %s\n", outcome.committed ? "committed" : "aborted", outcome.reason.c_str());
  std::printf("alice has %d, bob has %d\n", alice.balance(), bob.balance());
  std::filesystem::remove_all(folder);
  return alice.balance() == 70 && bob.balance() == 130 ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const std::exception& error) {
  std::fprintf(stderr, "two_phase_commit: %s\n", error.what());
  return EXIT_FAILURE;
}
