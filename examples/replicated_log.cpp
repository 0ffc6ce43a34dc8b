// One member of a replicated log: a process with a folder of its own. zkrecipes::ReplicaGroup says who may write, and
// whose confirmation an entry needs. The entries go over plain TCP, where anybody may pose as the primary.
//   replicated_log FOLDER ID ADDRESS PORT [ADVERTISED_ADDRESS:PORT [SERVERS [SESSION_MS [SERVER_TICK_MS]]]]
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

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <boost/asio.hpp>

#include <zkclient/client.hpp>
#include <zkclient/clock.hpp>
#include <zkrecipes/replica_group.hpp>

using namespace std::chrono_literals;
using boost::asio::ip::tcp;
using zkrecipes::InSyncReplica;
using Sum = std::uint64_t;

constexpr auto reply_time = 1s;           // A member that needs longer is taken out.
constexpr auto beat = 200ms;              // So often the primary sends something, or more often.
constexpr std::size_t most_records = 64;  // In one message.
constexpr std::size_t longest_text = 4000;
constexpr Sum empty_sum = 0xcbf29ce484222325;

/// A line to be read with >>. What is missing, or of another kind, throws.
struct Words : std::istringstream {
  explicit Words(const std::string& line) : std::istringstream(line) { exceptions(failbit | badbit); }
  std::string rest() { return std::string(std::istreambuf_iterator<char>(ignore()), {}); }
};

/// It throws when it breaks, or when something takes too long.
struct Connection : tcp::iostream {
  Connection() {
    exceptions(failbit | badbit | eofbit);
    unsetf(std::ios::unitbuf);  // Otherwise the destructor of a sentry flushes: it must not throw.
  }
  explicit Connection(const std::string& address) : Connection() {
    expires_after(reply_time);
    connect(address.substr(0, address.rfind(':')), address.substr(address.rfind(':') + 1));
    socket().set_option(tcp::no_delay(true));
  }
  std::string line(std::chrono::seconds limit) {
    char text[longest_text + 200];
    expires_after(limit);
    getline(text, sizeof text);
    return {text, static_cast<std::size_t>(gcount() - 1)};
  }
  void send(const std::string& text) {
    expires_after(reply_time);
    *this << text << std::flush;
  }
};

/// After a disk has failed nobody knows what is on it: the process ends, and the next start looks.
int check(ssize_t result) {
  if (result >= 0) return static_cast<int>(result);
  std::perror("the folder");
  std::_Exit(EXIT_FAILURE);
}

/// What a client has appended, with its number there, and the epoch in which the primary took it.
struct Entry {
  Entry(Sum before, std::string text) : body(std::move(text)), sum(before) {
    for (const char byte : body + '\n')  // FNV-1a: two logs with one sum at a position are equal before it.
      sum = (sum ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
    Words(body) >> epoch >> key.first >> key.second;
  }
  /// As it is on the disk and on its way. Another length, or another sum: it throws.
  static Entry parse(Sum before, const std::string& record) {
    Sum sum = 0;
    std::size_t length = 0;
    Words words(record);
    words >> sum >> length;
    Entry entry(before, words.rest());
    if (entry.body.size() != length || entry.sum != sum) throw std::invalid_argument("a damaged record");
    return entry;
  }
  std::string record() const { return fmt::format("{} {} {}\n", sum, body.size(), body); }

  std::string body;  // "EPOCH CLIENT NUMBER TEXT"
  Sum sum;           // Of this one and all before it.
  std::int64_t epoch = 0;
  std::pair<std::string, std::uint64_t> key = {};
};

/// The entries of a folder, as records in the file `log`. The file `promise` has what this storage must not forget: the
/// highest epoch that it has accepted, its name, how many entries were on the disk, and their sum. It is renewed before
/// anybody hears of new entries, and before entries are cut off. At the start the log may have more than was promised:
/// what is whole is kept; what is torn was never confirmed, and goes. With less, or with another sum, entries are lost
/// that may have been confirmed: that is another storage, with a new name, and not in sync. Never restore old folders!
class Log {
 public:
  explicit Log(const std::filesystem::path& folder) : folder_(folder) {
    std::filesystem::create_directories(folder_);
    directory_ = check(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    file_ = check(::open((folder_ / "log").c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    check(::flock(file_, LOCK_EX | LOCK_NB));  // No other process has it.
    read("log", [this](const std::string& record) { push(Entry::parse(sum_at(entries_.size()), record)); });
    bool kept = false;
    read("promise", [&](const std::string& record) {
      const Entry promised = Entry::parse(empty_sum, record);
      epoch_ = promised.epoch;
      storage_ = promised.key.first;
      kept = promised.key.second <= entries_.size() && promised.body == promise(promised.key.second);
    });
    if (!kept) storage_ = fmt::format("{:08x}{:08x}", std::random_device{}(), std::random_device{}());
    check(::fsync(file_));  // Of a process that was killed, the system may still have what it wrote.
    cut(entries_.size());
  }
  const std::string& storage() const { return storage_; }
  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }
  std::string read(std::size_t position) const {
    const std::lock_guard lock(mutex_);
    return position < std::min(acknowledged_, entries_.size()) ? "ok " + entries_[position].body : "end";
  }
  void acknowledge(std::size_t count) {
    const std::lock_guard lock(mutex_);
    acknowledged_ = std::max(acknowledged_, count);
  }
  /// Lower epochs are refused from then on. False: so is this one.
  bool accept(std::int64_t epoch) {
    const std::lock_guard lock(mutex_);
    if (epoch > std::exchange(epoch_, std::max(epoch, epoch_))) keep_promise(entries_.size());
    return epoch == epoch_;
  }
  /// The primary's own entry, if it is not there yet; its position. Nothing: another epoch has begun.
  std::optional<std::size_t> append(std::int64_t epoch, const std::string& text) {
    const std::lock_guard lock(mutex_);
    const Entry entry(sum_at(entries_.size()), fmt::format("{} {}", epoch, text));
    if (!accept(epoch)) return std::nullopt;
    const bool begins = entries_.empty() || entries_.back().epoch != epoch;
    if (begins || !positions_.contains(entry.key)) write({entry});
    return positions_.at(entry.key);
  }
  std::string message(std::int64_t epoch, std::size_t from) const {
    const std::lock_guard lock(mutex_);
    if (epoch != epoch_ || from > entries_.size()) throw std::runtime_error("another epoch has begun");
    const std::size_t end = std::min(from + most_records, entries_.size());
    std::string text = fmt::format("replicate {} {} {} {} {}\n", end - from, epoch, acknowledged_, from, sum_at(from));
    for (; from < end; ++from)
      text += entries_[from].record();
    return text;
  }
  /// What a member does with it.
  std::string take(Words& words, const std::vector<std::string>& records) {
    const std::lock_guard lock(mutex_);
    std::int64_t epoch = 0;
    std::size_t acknowledged = 0, position = 0;
    Sum sum = 0;
    words >> epoch >> acknowledged >> position >> sum;
    if (!accept(epoch)) return fmt::format("refused {} {}", storage_, entries_.size());
    if (!agrees(position, sum)) return fmt::format("differs {} {}", storage_, entries_.size());
    std::vector<Entry> fresh;
    for (const std::string& record : records) {
      const Entry entry = Entry::parse(sum, record);
      sum = entry.sum;
      if (!agrees(++position, sum) || !fresh.empty()) fresh.push_back(entry);
    }
    if (!fresh.empty() && position - fresh.size() < entries_.size()) cut(position - fresh.size());
    write(fresh);
    acknowledge(std::min(position, acknowledged));
    return fmt::format("has {} {}", storage_, position);
  }

 private:
  Sum sum_at(std::size_t position) const { return position == 0 ? empty_sum : entries_[position - 1].sum; }
  bool agrees(std::size_t position, Sum sum) const { return position <= entries_.size() && sum_at(position) == sum; }
  void push(const Entry& entry) {
    positions_[entry.key] = entries_.size();
    entries_.push_back(entry);
  }
  /// Each line, up to the first that is torn or damaged.
  void read(const char* name, auto each) try {
    std::ifstream file(folder_ / name);
    for (std::string line; std::getline(file, line) && !file.eof();)
      each(line);
  } catch (const std::exception&) {
  }
  static void put(int file, const std::string& text) {
    check(::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? ::fsync(file) : -1);
  }
  void write(const std::vector<Entry>& entries) {
    std::string text;
    for (const Entry& entry : entries) {
      text += entry.record();
      push(entry);
    }
    if (entries.empty()) return;
    put(file_, text);
    keep_promise(entries_.size());
  }
  void cut(std::size_t position) {
    keep_promise(position);
    for (; entries_.size() > position; entries_.pop_back())
      positions_.erase(entries_.back().key);
    std::size_t size = 0;
    for (const Entry& entry : entries_)
      size += entry.record().size();
    check(::ftruncate(file_, static_cast<off_t>(size)));
    check(::fsync(file_));
  }
  std::string promise(std::size_t at) const { return fmt::format("{} {} {} {}", epoch_, storage_, at, sum_at(at)); }
  void keep_promise(std::size_t count) {
    const auto next = folder_ / "promise.new";
    const int file = check(::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    put(file, Entry(empty_sum, promise(count)).record());
    ::close(file);
    check(::rename(next.c_str(), (folder_ / "promise").c_str()));
    check(::fsync(directory_));
  }

  const std::filesystem::path folder_;
  int directory_ = -1, file_ = -1;
  mutable std::recursive_mutex mutex_;
  std::string storage_;
  std::int64_t epoch_ = 0;
  std::size_t acknowledged_ = 0;  // As far as is known here.
  std::vector<Entry> entries_;
  std::map<std::pair<std::string, std::uint64_t>, std::size_t> positions_;
};

class Member {
 public:
  Member(Log& log, const zkclient::Client& client, const zkrecipes::Replica& self)
      : log_(log),
        group_(client, "/replicated_log", self,
               {[this](const auto& term) { lead(term); }, [this](const auto& term) { log_.accept(term.epoch); }},
               {.minimum = 2}) {}
  void serve_all(tcp::acceptor& acceptor) noexcept {
    for (;;) {
      auto connection = std::make_shared<Connection>();
      acceptor.accept(connection->socket());
      std::thread([this, connection] { serve(*connection); }).detach();
    }
  }
  /// As the primary: tells the others what is acknowledged, takes out who does not answer, and takes in who has come.
  void tend() {
    for (;; std::this_thread::sleep_for(beat)) {
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

 private:
  void serve(Connection& connection) try {
    for (std::string verb;;) {  // Until the connection ends. Bad bytes end it as well.
      Words words(connection.line(30s));
      words >> verb;
      connection.send(answer(verb, words, connection) + "\n");
    }
  } catch (const std::exception&) {
  }
  std::string answer(const std::string& verb, Words& words, Connection& connection) {
    if (verb == "append") return append(words);
    if (verb == "read") return read(words);
    if (verb == "replicate") return replicate(words, connection);
    if (verb == "state") return fmt::format("ok {} {} {}", to_string(group_.role()), log_.count(), log_.storage());
    throw std::invalid_argument("no such verb");
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
    std::cout << fmt::format("acknowledged {} {} {}\n", epoch_, *position, now.count()) << std::flush;
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
      const std::vector<InSyncReplica> all = group_.in_sync();
      const auto fails = [&](const auto& one) { return !catches_up(peers_[one.storage], one); };
      const auto failed = std::find_if(all.begin(), all.end(), fails);
      if (failed == all.end() && group_.in_sync() == all) return !all.empty();
      if (failed != all.end()) group_.shrink({failed->id});
    }
  } catch (const zkclient::Error&) {
    return false;  // It is not the primary any more.
  }
  /// Sends the last entry, or all from where the logs are equal, and hears that the member has them.
  bool catches_up(std::unique_ptr<Connection>& connection, const InSyncReplica& replica) try {
    if (replica.storage == log_.storage()) return true;
    for (const auto& member : group_.members()) {
      if (!connection && member.storage == replica.storage) connection = std::make_unique<Connection>(member.address);
    }
    if (!connection) return false;  // It is not there.
    std::string verdict, storage;
    std::size_t count = 0, next = log_.count() - 1;
    do {
      connection->send(log_.message(epoch_, next));
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
  void take_in(const InSyncReplica& replica) try {
    const std::vector<InSyncReplica> all = group_.in_sync();
    const auto same = [&](const auto& one) { return one.id == replica.id && one.storage == replica.storage; };
    std::unique_ptr<Connection> connection;
    if (all.empty() || std::any_of(all.begin(), all.end(), same) || !catches_up(connection, replica)) return;
    const std::lock_guard lock(writing_);
    if (catches_up(connection, replica)) group_.expand(epoch_, replica.id, replica.storage);
  } catch (const zkclient::Error&) {  // Again at the next beat, if it still is the primary.
  }

  Log& log_;
  std::mutex writing_;                                        // Of who appends, or changes who is in sync.
  std::atomic<std::int64_t> epoch_ = 0;                       // In which it is the primary, or was.
  std::map<std::string, std::unique_ptr<Connection>> peers_;  // By storage.
  zkrecipes::ReplicaGroup group_;                             // The last one: its handlers use all of these.
};

int main(int argc, char** argv) try {
  if (argc < 5) throw std::invalid_argument("usage: replicated_log FOLDER ID ADDRESS PORT ...");
  const auto given = [&](int i, std::string otherwise) { return i < argc ? argv[i] : std::move(otherwise); };
  const std::chrono::milliseconds session(std::stol(given(7, "10000"))), tick(std::stol(given(8, "2000")));
  const zkclient::Client client(given(6, "127.0.0.1:2181"), {.session_timeout = session, .server_tick = tick});
  Log log(argv[1]);
  boost::asio::io_context io;
  tcp::acceptor acceptor(io, tcp::resolver(io).resolve(argv[3], argv[4])->endpoint());
  std::cout << "listening" << std::endl;
  Member member(log, client, {argv[2], log.storage(), given(5, fmt::format("{}:{}", argv[3], argv[4]))});
  std::thread([&] { member.tend(); }).detach();
  member.serve_all(acceptor);
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return EXIT_FAILURE;
}
