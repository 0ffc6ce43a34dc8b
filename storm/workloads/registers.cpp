#include "storm/workloads/registers.hpp"

#include <map>
#include <memory>
#include <optional>

#include <zkrecipes/coherent_cache.hpp>
#include <zkrecipes/shared_value.hpp>

#include "storm/checkers/agreements.hpp"
#include "storm/workloads/operation_notes.hpp"
#include "storm/workloads/sessions.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;
using zkclient::Errc;

constexpr std::uint64_t registers = 3;

/// Some worlds are quick, some are slow.
class RegisterPace {
 public:
  explicit RegisterPace(Place& place) : most_(place.below(3) == 0 ? 300 : 1500) {}
  void pause(Place& place) const { place.pause(most_); }

 private:
  const std::uint64_t most_;
};

Operation found(std::int64_t value, std::int64_t version = Operation::any_version) {
  return {Operation::read, 0, 0, value, Operation::absent, version};
}
Operation of_versions(Operation::Kind kind, std::int64_t value, std::int64_t version) {
  return {kind, 0, 0, value, Operation::absent, version};
}
Operation of_values(Operation::Kind kind, std::int64_t value, std::int64_t expected = Operation::absent) {
  return {kind, 0, 0, value, expected};
}
const Operation found_nothing = found(Operation::absent);

/// Reads that follow see all that was committed before. A sync would not do: a leader answers its own clients' syncs before it
/// has applied what it has told its followers to commit.
void pass_through_quorum(const zkclient::Client& client) {
  client.commit(zkclient::Transaction().check("/"), within(10s));
}

/// Another session of the same client goes on.
template <typename Act>
void bear_lost_sessions(Place& place, Act act) {
  try {
    act();
  } catch (const zkclient::Error& error) {
    place.note("error", 0, 0, error.what());
    if (error.code() == Errc::closed) throw;
    place.pause(500);
  }
}

}  // namespace

// --- Plain nodes ---------------------------------------------------------------------------------

namespace {

class NodeRegisters {
 public:
  NodeRegisters(Place& place, zkclient::Client& client, OperationNotes& notes)
      : place_(place), client_(client), notes_(notes) {
    client.ensure("/registers", zkclient::CreateMode::persistent, within(30s));
  }

  void use_one() {
    const std::string name = "r" + std::to_string(place_.below(registers));
    switch (place_.below(10)) {
      case 0:
      case 1: create(name); break;
      case 2: set(name, Operation::any_version); break;
      case 3:
      case 4: set(name, versions_[name]); break;
      case 5: remove(name, place_.below(2) == 0 ? Operation::any_version : versions_[name]); break;
      default: read(name); break;
    }
  }
  void read(const std::string& name) {
    notes_.perform(name, found_nothing, [&](std::int64_t) {
      pass_through_quorum(client_);
      return or_nothing([&] {
        const zkclient::NodeData node = client_.get(path_of(name), within(10s));
        versions_[name] = node.stat.version;
        return found(std::stoll(node.data), node.stat.version);
      });
    });
    place_.note("read");
  }

 private:
  static zkclient::Path path_of(const std::string& name) { return zkclient::Path("/registers") / name; }
  static std::int32_t number(std::int64_t version) {
    return version == Operation::any_version ? zkclient::any_version : static_cast<std::int32_t>(version);
  }
  /// That there is no node is what was found.
  template <typename Act>
  static Operation or_nothing(Act act) {
    try {
      return act();
    } catch (const zkclient::Error& error) {
      if (error.code() != Errc::no_node) throw;
      return found_nothing;
    }
  }
  template <typename Act>
  static Operation or_another_version(std::int64_t version, Act act) {
    return or_nothing([&] {
      try {
        return act();
      } catch (const zkclient::Error& error) {
        if (error.code() != Errc::bad_version) throw;
        return of_versions(Operation::refuse_version, Operation::absent, version);
      }
    });
  }
  void create(const std::string& name) {
    const std::int64_t value = notes_.fresh();
    const Operation asked = of_values(Operation::create, value);
    notes_.perform(name, asked, [&](std::int64_t) {
      try {
        client_.create(path_of(name), std::to_string(value), {.mode = zkclient::CreateMode::persistent}, within(10s));
        versions_[name] = 0;
        return asked;
      } catch (const zkclient::Error& error) {
        if (error.code() != Errc::node_exists) throw;
        return of_values(Operation::refuse, Operation::absent, Operation::absent);
      }
    });
  }
  void set(const std::string& name, std::int64_t version) {
    const std::int64_t value = notes_.fresh();
    notes_.perform(name, of_versions(Operation::set, value, version), [&](std::int64_t) {
      return or_another_version(version, [&] {
        const auto stat = client_.set(path_of(name), std::to_string(value), number(version), within(10s));
        versions_[name] = stat.version;
        return of_versions(Operation::set, value, stat.version - 1);
      });
    });
  }
  void remove(const std::string& name, std::int64_t version) {
    const Operation asked = of_versions(Operation::remove, Operation::absent, version);
    notes_.perform(name, asked, [&](std::int64_t) {
      return or_another_version(version, [&] {
        client_.remove(path_of(name), number(version), within(10s));
        return asked;
      });
    });
  }

  Place& place_;
  zkclient::Client& client_;
  OperationNotes& notes_;
  std::map<std::string, std::int64_t> versions_;  // The last ones that were seen.
};

}  // namespace

void run_registers(Place& place) {
  OperationNotes notes(place);
  const RegisterPace pace(place);
  with_sessions(place, [&](zkclient::Client& client) {
    NodeRegisters all(place, client, notes);
    for (int i = 0; i < 30 && !place.stopped(); ++i) {
      bear_lost_sessions(place, [&] { all.use_one(); });
      pace.pause(place);
    }
  });
}

void look_at_registers(Place& place) {
  zkclient::Client client(place.servers(), {.session_timeout = 10s});
  client.connect(within(60s));
  OperationNotes notes(place);
  NodeRegisters all(place, client, notes);
  for (std::uint64_t i = 0; i < registers; ++i)
    all.read("r" + std::to_string(i));
}

Faults check_registers(const History& history) {
  return all_of({check_operations(history, Operation::absent), check_progress(history, "read")});
}

// --- Items and values, which are compared by what nobody else has written ------------------------

namespace {

/// What is done to a register whose values are remembered together with what names them: a revision, say.
template <typename Register>
class ComparedRegister {
 public:
  ComparedRegister(Place& place, OperationNotes& notes, Register& one, std::string name)
      : place_(place), notes_(notes), one_(one), name_(std::move(name)) {}

  void use() {
    switch (place_.below(8)) {
      case 0: put(); break;
      case 1: compare(); break;
      case 2: update(); break;
      case 3: one_.other(place_, notes_, name_); break;
      default: read(); break;
    }
  }
  void read() {
    notes_.perform(name_, found_nothing, [&](std::int64_t) {
      known_ = one_.get(name_);
      return found(Register::value_of(*known_));
    });
    place_.note("read");
  }

 private:
  void put() {
    const Operation asked = of_values(Operation::write, notes_.fresh());
    notes_.perform(name_, asked, [&](std::int64_t) {
      one_.put(name_, std::to_string(asked.value));
      return asked;
    });
  }
  void compare() {
    if (!known_) return read();
    const Operation asked = of_values(Operation::change, notes_.fresh(), Register::value_of(*known_));
    notes_.perform(name_, asked, [&](std::int64_t) {
      if (one_.compare(name_, *known_, std::to_string(asked.value))) return asked;
      return of_values(Operation::refuse, Operation::absent, asked.expected);
    });
  }
  /// What it writes is known when it is done.
  void update() {
    notes_.perform(name_, found_nothing, [&](std::int64_t number) {
      Operation last = found_nothing;
      one_.update(name_, [&](std::int64_t now) {
        last = of_values(Operation::change, notes_.fresh(), now);
        notes_.tries(number, name_, last);
        return std::to_string(last.value);
      });
      return last;
    });
  }

  Place& place_;
  OperationNotes& notes_;
  Register& one_;
  const std::string name_;
  std::optional<typename Register::Known> known_;
};

class CachedItem {
 public:
  using Known = zkrecipes::CoherentItem;

  explicit CachedItem(zkclient::Client& client) : cache_(client, "/coherent", {.shards = 2}) {}

  static std::int64_t value_of(const Known& item) { return item.exists ? std::stoll(item.data) : Operation::absent; }
  Known get(const std::string& name) { return *cache_.get(name, within(10s)); }
  void put(const std::string& name, const std::string& data) { cache_.put(name, data, within(15s)); }
  bool compare(const std::string& name, const Known& known, const std::string& data) {
    return cache_.compare_put(name, known.revision, data, within(15s));
  }
  template <typename Function>
  void update(const std::string& name, Function function) {
    cache_.update(
        name, [&](const Known& item) { return std::optional(function(value_of(item))); }, within(15s));
  }
  /// Makes or removes it.
  void other(Place& place, OperationNotes& notes, const std::string& name) {
    if (place.below(2) == 0) {
      const Operation asked = of_values(Operation::change, notes.fresh(), Operation::absent);
      const Operation refused = of_values(Operation::refuse, Operation::absent, Operation::absent);
      perform(notes, name, asked, Errc::node_exists, refused,
              [&] { cache_.create(name, std::to_string(asked.value), within(15s)); });
    } else {
      perform(notes, name, of_values(Operation::write, Operation::absent), Errc::no_node, found_nothing,
              [&] { cache_.remove(name, within(15s)); });
    }
  }

 private:
  /// With one error that is an answer.
  template <typename Act>
  static void perform(OperationNotes& notes, const std::string& name, const Operation& asked, Errc answer,
                      const Operation& answered, Act act) {
    notes.perform(name, asked, [&](std::int64_t) {
      try {
        act();
        return asked;
      } catch (const zkclient::Error& error) {
        if (error.code() != answer) throw;
        return answered;
      }
    });
  }

  zkrecipes::CoherentCache cache_;
};

class SharedRegister {
 public:
  using Known = zkrecipes::VersionedValue;

  SharedRegister(Place& place, zkclient::Client& client)
      : client_(client), value_(client, "/shared", {.durable = place.below(2) == 0}) {}

  static std::int64_t value_of(const Known& value) { return value.exists ? std::stoll(value.data) : Operation::absent; }
  Known get(const std::string&) {
    pass_through_quorum(client_);
    return value_.get(within(10s));
  }
  void put(const std::string&, const std::string& data) { value_.set(data, within(15s)); }
  bool compare(const std::string&, const Known& known, const std::string& data) {
    return value_.compare_set(known.version, data, within(15s));
  }
  template <typename Function>
  void update(const std::string&, Function function) {
    value_.update([&](const Known& value) { return std::optional(function(value_of(value))); }, within(15s));
  }
  void other(Place& place, OperationNotes&, const std::string&) { place.pause(10); }

 private:
  zkclient::Client& client_;
  zkrecipes::SharedValue value_;
};

/// Two objects in one process, which know nothing of each other.
template <typename Make>
void use_registers(Place& place, std::uint64_t count, Make make) {
  OperationNotes notes(place);
  const RegisterPace pace(place);
  with_sessions(place, [&](zkclient::Client& client) {
    auto first = make(client);
    auto second = make(client);
    using Register = std::remove_reference_t<decltype(*first)>;
    std::vector<ComparedRegister<Register>> all;
    for (std::uint64_t i = 0; i < count; ++i) {
      for (Register* one : {first.get(), second.get()})
        all.emplace_back(place, notes, *one, "i" + std::to_string(i));
    }
    for (int i = 0; i < 40 && !place.stopped(); ++i) {
      bear_lost_sessions(place, [&] { all[place.below(all.size())].use(); });
      pace.pause(place);
    }
  });
}

template <typename Make>
void look_at_all(Place& place, std::uint64_t count, Make make) {
  zkclient::Client client(place.servers(), {.session_timeout = 10s});
  client.connect(within(60s));
  OperationNotes notes(place);
  auto one = make(client);
  for (std::uint64_t i = 0; i < count; ++i)
    ComparedRegister(place, notes, *one, "i" + std::to_string(i)).read();
}

std::unique_ptr<CachedItem> cached_items(zkclient::Client& client) { return std::make_unique<CachedItem>(client); }

}  // namespace

void run_coherent_items(Place& place) { use_registers(place, registers, cached_items); }
void look_at_coherent_items(Place& place) { look_at_all(place, registers, cached_items); }

void run_shared_registers(Place& place) {
  use_registers(place, 1, [&](zkclient::Client& client) { return std::make_unique<SharedRegister>(place, client); });
}
void look_at_shared_registers(Place& place) {
  look_at_all(place, 1, [&](zkclient::Client& client) { return std::make_unique<SharedRegister>(place, client); });
}

}  // namespace storm
