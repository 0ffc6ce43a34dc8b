// Who is there: each process is a member of a group, and sees the others come and go.
//   group [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <zkclient/client.hpp>
#include <zkrecipes/group.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  zkrecipes::Group workers(client, "/examples/workers");

  const auto subscription =
      workers.on_change([](const std::vector<zkrecipes::MemberChange>& changes, const zkrecipes::GroupSnapshot& now) {
        for (const zkrecipes::MemberChange& change : changes) {
          const zkrecipes::Member& member = change.after ? *change.after : *change.before;
          std::printf("%s %s (%zu here)\n", to_string(change.kind), member.id.c_str(), now.members.size());
        }
      });
  zkrecipes::Membership first = workers.join("worker-1", "10.0.0.1:8080", {.deadline = 10s});
  zkrecipes::Membership second = workers.join("worker-2", "10.0.0.2:8080", {.deadline = 10s});
  const zkrecipes::GroupSnapshot both = workers.wait_for_members(2, {.deadline = 10s});
  for (const zkrecipes::Member& member : both.members)
    std::printf("%s at %s\n", member.id.c_str(), member.payload.c_str());

  // Others see it as long as its session lives, whatever happens to connections; it comes back by itself with the next
  // one.
  second.update("10.0.0.3:8080", {.deadline = 10s});
  second.leave({.deadline = 10s});
  first.leave({.deadline = 10s});
} catch (const zkclient::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
