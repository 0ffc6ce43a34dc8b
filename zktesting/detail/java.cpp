#include "zktesting/detail/java.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace zktesting::detail {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') {
    return std::nullopt;
  }
  return value;
}

bool executable(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

bool readable_and_filled(const fs::path& file) {
  std::error_code error;
  return fs::is_regular_file(file, error) && fs::file_size(file, error) > 0 && ::access(file.c_str(), R_OK) == 0;
}

std::string find_java() {
  if (const auto chosen = environment("ZKRECIPES_JAVA")) {
    if (!executable(*chosen)) {
      throw Error(
          fmt::format("java not found: ZKRECIPES_JAVA is \"{}\", which is not a program; unset it and install "
                      "default-jre-headless, or correct it",
                      *chosen));
    }
    return fs::absolute(*chosen);
  }
  std::string path = environment("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find(':', begin), path.size());
    const fs::path candidate = fs::path(path.substr(begin, end - begin)) / "java";
    if (candidate.is_absolute() && executable(candidate)) {
      return candidate;
    }
    begin = end + 1;
  }
  throw Error("java not found: install default-jre-headless (or set ZKRECIPES_JAVA)");
}

struct Jar {
  std::string_view file;
  std::string_view package;  ///< Empty: the server does without.
};

constexpr std::array jars{
    Jar{"zookeeper.jar", "libzookeeper-java"},
    Jar{"zookeeper-jute.jar", "libzookeeper-java"},
    Jar{"slf4j-api.jar", "libslf4j-java"},
    Jar{"metrics-core.jar", "libdropwizard-metrics-java"},
    // Without it the server listens but never serves, and does not say why.
    Jar{"snappy-java.jar", "libsnappy-java"},
    Jar{"slf4j-simple.jar", ""},
    // For ServerOptions::secure_port.
    Jar{"netty-handler.jar", ""},
    Jar{"netty-transport.jar", ""},
    Jar{"netty-transport-native-epoll.jar", ""},
    Jar{"netty-transport-native-unix-common.jar", ""},
    Jar{"netty-resolver.jar", ""},
    Jar{"netty-codec.jar", ""},
    Jar{"netty-buffer.jar", ""},
    Jar{"netty-common.jar", ""},
};

std::string find_jars() {
  const fs::path folder = fs::absolute(environment("ZKRECIPES_JARS").value_or("/usr/share/java"));
  std::string class_path;
  for (const Jar& jar : jars) {
    const fs::path file = folder / jar.file;
    std::error_code ignored;
    if (fs::exists(file, ignored)) {
      if (!class_path.empty()) class_path += ':';
      class_path += file.string();
    } else if (!jar.package.empty()) {
      throw Error(fmt::format("{} not found: install {} (or set ZKRECIPES_JARS)", file.string(), jar.package));
    }
  }
  return class_path;
}

}  // namespace

std::vector<std::string> java_command(const ServerOptions& options, const fs::path& scratch) {
  std::vector<std::string> command{
      find_java(),
      // Quick to start and small; the flags hardly change how fast the server is.
      "-XX:TieredStopAtLevel=1",
      "-XX:+UseSerialGC",
      "-Xshare:auto",
      "-Xss256k",
      "-Xmx256m",
      // Nothing may stay behind outside of our folder.
      "-XX:-UsePerfData",
      fmt::format("-Djava.io.tmpdir={}", scratch.string()),
      fmt::format("-XX:ErrorFile={}", (scratch / "hs_err.log").string()),
      "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
      "-Dorg.slf4j.simpleLogger.showDateTime=true",
      "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
      fmt::format("-Dzookeeper.forceSync={}", options.fsync ? "yes" : "no"),
      fmt::format("-Dznode.container.checkIntervalMs={}", options.container_check_interval.count()),
      // The transaction log grows in steps of this many kB; the default of 64 MB fills small disks.
      "-Dzookeeper.preAllocSize=4096",
  };
  if (const auto archive = environment("ZKRECIPES_CLASS_ARCHIVE"); archive && readable_and_filled(*archive)) {
    command.push_back("-XX:SharedArchiveFile=" + fs::absolute(*archive).string());
  }
  command.insert(command.end(), options.jvm_flags.begin(), options.jvm_flags.end());
  command.insert(command.end(), {"-cp", find_jars(), "org.apache.zookeeper.server.quorum.QuorumPeerMain"});
  return command;
}

}  // namespace zktesting::detail
