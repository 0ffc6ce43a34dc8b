// class_archive <file>: writes the classes of a ZooKeeper server to a file from which the servers of tests read them
// (ZKRECIPES_CLASS_ARCHIVE): there are more than a thousand of them, and half of what a start costs is to load classes.
// Where that is not possible, it writes an empty file, says why, and the tests just take longer.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>

#include <zkclient/client.hpp>
#include <zktesting/server.hpp>

namespace {

// What most tests let their server do.
void use(const std::string& servers) {
  zkclient::Client client(servers);
  const zkclient::Path node("/node");
  client.create(node, "data");
  client.set(node, "other data");
  (void)client.get(node);
  (void)client.children(zkclient::Path("/"));
  client.commit(zkclient::Transaction().check(node).remove(node));
  client.close();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: class_archive <file>\n");
    return 2;
  }
  const std::filesystem::path file = argv[1];
  const std::filesystem::path draft = file.string() + ".draft";
  ::unsetenv("ZKRECIPES_CLASS_ARCHIVE");
  try {
    zktesting::ServerOptions options;
    options.jvm_flags = {"-XX:ArchiveClassesAtExit=" + std::filesystem::absolute(draft).string()};
    zktesting::Server server(options);
    use(server.connect_string());
    server.stop();
    std::filesystem::rename(draft, file);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "class_archive: %s\n", error.what());
    std::ofstream{file};
  }
  return 0;
}
