// A transfer between two banks, each with a database of its own: both change, or none does, whenever a process dies.
//   bank_transfer FOLDER [AMOUNT [crash]]    from alice to bob. Servers: $ZKRECIPES_SERVER
// Without AMOUNT it finishes what is open. `crash`: it dies when both have voted, and one has applied the decision.

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <zkclient/client.hpp>
#include <zkrecipes/two_phase_commit.hpp>

using zkrecipes::CommitTransaction;
using zkrecipes::CommitVote;
using namespace std::chrono_literals;

namespace {

constexpr const char* transfers = "/cookbook/bank";

// A database: a balance, and what was promised to transactions that are open. It is replaced as a whole, so a crash
// leaves the old one or the new one.
class Account {
 public:
  Account(std::filesystem::path file, int balance) : file_(std::move(file)), balance_(balance) {
    if (!std::filesystem::exists(file_)) write();
    std::ifstream in(file_);
    if (!(in >> balance_)) throw std::runtime_error("cannot read " + file_.string());
    std::string id;
    for (int amount = 0; in >> id >> amount;)
      promised_[id] = amount;
  }
  int balance() const {
    const std::lock_guard lock(mutex_);
    return balance_;
  }
  // After this nothing can keep apply() from succeeding: the money is set aside, on the disk.
  CommitVote promise(const std::string& id, int amount) {
    const std::lock_guard lock(mutex_);
    int free = balance_;
    for (const auto& [other, change] : promised_)
      free += other != id && change < 0 ? change : 0;
    if (free + amount < 0) return CommitVote::no("no funds");
    promised_[id] = amount;
    write();
    return CommitVote::yes();
  }
  // May be called again with the same id, which then has no promise any more: nothing happens twice.
  void settle(const std::string& id, bool apply) {
    const std::lock_guard lock(mutex_);
    const auto promise = promised_.find(id);
    if (promise == promised_.end()) return;
    if (apply) balance_ += promise->second;
    promised_.erase(promise);
    write();
  }

 private:
  void write() const {
    std::string text = std::to_string(balance_) + "\n";
    for (const auto& [id, amount] : promised_)
      text += id + " " + std::to_string(amount) + "\n";
    const std::string next = file_.string() + ".new";
    const int file = ::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const int folder = ::open(file_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool kept = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                      ::fsync(file) == 0 && ::rename(next.c_str(), file_.c_str()) == 0 && ::fsync(folder) == 0;
    ::close(file);
    ::close(folder);
    if (!kept) throw std::runtime_error("cannot write " + file_.string());
  }

  const std::filesystem::path file_;
  mutable std::mutex mutex_;
  int balance_;
  std::map<std::string, int> promised_;
};

// Takes part in transfers under the name of an account until it is stopped.
void serve(const zkclient::Client& client, Account& account, const std::string& name, int sign, bool crash,
           const std::filesystem::path& folder, const std::stop_token& stop) try {
  zkrecipes::CommitHandlers handlers;
  handlers.prepare = [&account, sign](const CommitTransaction& transfer) {
    return account.promise(transfer.id, sign * std::stoi(transfer.payload));
  };
  handlers.commit = [&account, crash](const CommitTransaction& transfer) {
    if (crash) ::raise(SIGKILL);  // It has voted for the transfer, which is decided, and has not applied it.
    account.settle(transfer.id, true);
  };
  handlers.abort = [&account](const CommitTransaction& transfer) { account.settle(transfer.id, false); };
  // The log remembers the vote. With it, a process that starts again applies what was decided while it was away.
  const auto log = std::make_shared<zkrecipes::FileLog>(folder / (name + ".log"));
  zkrecipes::CommitParticipant participant(client, transfers, name, log);
  participant.serve(std::move(handlers), {.stop = stop});
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
  std::_Exit(EXIT_FAILURE);  // A supervisor starts it again.
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: bank_transfer FOLDER [AMOUNT [crash]]\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  const bool crash = argc == 4 && std::string_view(argv[3]) == "crash";
  const char* server = std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  Account alice(folder / "alice", 100);
  Account bob(folder / "bob", 100);
  const std::jthread pays([&](const std::stop_token& stop) { serve(client, alice, "alice", -1, false, folder, stop); });
  const std::jthread gets([&](const std::stop_token& stop) { serve(client, bob, "bob", 1, crash, folder, stop); });
  for (const char* name : {"alice", "bob"}) {  // After a crash its name is free when the old session is over.
    while (!client.exists(zkclient::Path(transfers) / "participants" / name))
      std::this_thread::sleep_for(20ms);
  }

  // What an earlier process left open is decided here, or was decided already. Any process may do that.
  zkrecipes::CommitCoordinator coordinator(client, transfers);
  while (!coordinator.transactions().empty()) {
    for (const auto& outcome : coordinator.recover())
      std::printf("recovered: %s %s\n", outcome.committed ? "committed" : "aborted", outcome.reason.c_str());
    std::this_thread::sleep_for(20ms);
  }
  if (argc > 2) {
    const auto outcome = coordinator.run({"alice", "bob"}, argv[2], {.wait = zkrecipes::CommitOptions::Wait::applied});
    std::printf("transfer: %s %s\n", outcome.committed ? "committed" : "aborted", outcome.reason.c_str());
  }
  std::printf("alice has %d, bob has %d\n", alice.balance(), bob.balance());
} catch (const std::exception& error) {
  std::fprintf(stderr, "bank_transfer: %s\n", error.what());
  return EXIT_FAILURE;
}
