// What protects a resource from a holder that was paused for too long and does not know that its lease is over: a token
// that the resource checks, or, for what is stored in ZooKeeper, a guard in the transaction.
//   fencing [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <cstdio>
#include <cstdlib>
#include <string>
#include <zkclient/client.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/revoke.hpp>

using namespace std::chrono_literals;

namespace {

/// Stands for a database, a disk, a machine: something with a memory of its own.
class Resource {
 public:
  bool write(zkrecipes::FencingToken token, std::string value) {
    if (token < highest_) return false;  // Another holder has been here since.
    highest_ = token;
    value_ = std::move(value);
    return true;
  }
  const std::string& value() const { return value_; }

 private:
  zkrecipes::FencingToken highest_;
  std::string value_;
};

}  // namespace

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  client.connect();  // Throws if no server answers.
  zkrecipes::Mutex mutex(client, "/examples/fenced", {.id = "example"});
  client.ensure("/examples/stored");
  Resource resource;

  const zkrecipes::Lease former = mutex.acquire();
  const zkclient::Check former_guard = former.guard();
  resource.write(former.token(), "first");
  // The holder is paused here; the others cannot wait for ever.
  zkrecipes::revoke_holders(client, mutex.path(), {.break_after = 0ms});
  zkrecipes::Lease present = mutex.acquire();
  resource.write(present.token(), "second");
  client.commit(zkclient::Transaction().set("/examples/stored", "second").check(present.guard()));

  // It wakes up, and goes on as if nothing had happened.
  const bool written = resource.write(former.token(), "stale");
  std::error_code error;
  client.commit(zkclient::Transaction().set("/examples/stored", "stale").check(former_guard), {}, error);
  std::printf("the resource %s the stale write: %s\n", written ? "took" : "refused", resource.value().c_str());
  std::printf("ZooKeeper %s it: %s\n", error ? "refused" : "took", client.get("/examples/stored").data.c_str());
  return !written && error && client.get("/examples/stored").data == "second" ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const std::exception& error) {
  std::fprintf(stderr, "fencing: %s\n", error.what());
  return EXIT_FAILURE;
}
