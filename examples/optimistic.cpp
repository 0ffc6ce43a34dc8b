// Money goes from one account to another, whoever else moves money at the same time; and never more than there is.
//   optimistic [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <zkclient/client.hpp>
#include <zkrecipes/optimistic.hpp>

using namespace std::chrono_literals;
using zkrecipes::OptimisticView;

namespace {

void transfer(OptimisticView& view, const zkclient::Path& from, const zkclient::Path& to, int amount) {
  const int left = std::stoi(view.get(from)) - amount;
  if (left < 0) throw std::domain_error("not enough money");
  view.set(from, std::to_string(left));
  view.set(to, std::to_string(std::stoi(view.get(to)) + amount));
}

}  // namespace

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  const zkclient::Path folder = "/examples/bank";
  const zkclient::Path ann = folder / "ann";
  const zkclient::Path bob = folder / "bob";
  client.ensure(folder, zkclient::CreateMode::persistent, {.deadline = 10s});

  zkrecipes::Optimistic bank(client, folder);
  bank.atomically([&](OptimisticView& view) {
    for (const zkclient::Path& account : {ann, bob})
      view.exists(account) ? view.set(account, "50") : view.create(account, "50");
  });
  {
    std::vector<std::jthread> tellers;
    for (const bool there : {true, false}) {
      tellers.emplace_back([&, there] {
        for (int i = 0; i < 10; ++i)
          bank.atomically([&](OptimisticView& view) { transfer(view, there ? ann : bob, there ? bob : ann, 1); });
      });
    }
  }
  try {
    bank.atomically([&](OptimisticView& view) { transfer(view, ann, bob, 1'000); });
    return EXIT_FAILURE;
  } catch (const std::domain_error& error) {
    std::printf("refused: %s\n", error.what());
  }
  std::string text;
  int sum = 0;
  bank.atomically([&](OptimisticView& view) {
    text = view.get(ann) + " and " + view.get(bob);
    sum = std::stoi(view.get(ann)) + std::stoi(view.get(bob));
  });
  std::printf("ann and bob have %s\n", text.c_str());
  return sum == 100 ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const zkclient::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return EXIT_FAILURE;
}
