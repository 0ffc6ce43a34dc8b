// A program that brings its changes of the tree along: each is applied once, by whichever process starts first.
//   migrations [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <cstdio>
#include <cstdlib>
#include <string>

#include <zkclient/client.hpp>
#include <zkrecipes/migrations.hpp>

namespace {

/// All of the history. New steps are appended; what has been applied stays as it is.
zkrecipes::MigrationSet history() {
  zkrecipes::MigrationSet set("shop");
  set.add(
      "make the shop",
      zkclient::Transaction().create("/examples/migrations/shop", "").create("/examples/migrations/shop/limit", "10"));
  set.add("double the limit", [](zkrecipes::OptimisticView& view) {
    const zkclient::Path limit = "/examples/migrations/shop/limit";
    view.set(limit, std::to_string(2 * std::stoi(view.get(limit))));
  });
  return set;
}

}  // namespace

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  client.ensure("/examples/migrations");

  zkrecipes::Migrations migrations(client, "/examples/migrations/locks", "/examples/migrations/records");
  for (const zkrecipes::PendingStep& step : migrations.pending(history()))
    std::printf("to be applied: %s\n", step.name.c_str());
  for (const std::string& step : migrations.migrate(history()))
    std::printf("applied: %s\n", step.c_str());
  std::printf("the limit is %s\n", client.get("/examples/migrations/shop/limit").data.c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "migrations: %s\n", error.what());
  return EXIT_FAILURE;
}
