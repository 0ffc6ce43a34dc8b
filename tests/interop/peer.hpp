#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/interop/process.hpp"
#include "tests/support/testkit.hpp"

namespace testkit {

/// A program that uses another library. It ends when the object does, or is killed.
class Peer {
 public:
  explicit Peer(std::vector<std::string> command)
      : process_(std::move(command), [this](const std::string& line) { said_.put(line); }) {}

  /// What it answers to a command: the lines before "done".
  std::vector<std::string> tell(const std::string& command) {
    process_.tell(command);
    std::vector<std::string> answer;
    for (std::string line = said_.take(); line != "done"; line = said_.take())
      answer.push_back(line);
    return answer;
  }
  void kill() const { process_.kill(); }

 private:
  Box<std::string> said_;
  const Process process_;
};

/// A Java program that uses Apache Curator. It is compiled for as long as the object lives.
class CuratorProgram {
 public:
  explicit CuratorProgram(const std::filesystem::path& source) : name_(source.stem()) {
    classes_ = std::filesystem::temp_directory_path() / ("zkrecipes-" + name_ + "-" + std::to_string(::getpid()));
    path_ = classes_.string();
    for (const char* jar : {"curator-x-discovery", "curator-recipes", "curator-framework", "curator-client", "guava",
                            "failureaccess", "zookeeper", "zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java",
                            "jackson-core", "jackson-databind", "jackson-annotations"}) {
      path_ += ":" + file_of(jar);
    }
    std::filesystem::create_directories(classes_);
    const std::string compile = "javac -d '" + classes_.string() + "' -cp '" + path_ + "' '" + source.string() + "'";
    EXPECT_EQ(std::system(compile.c_str()), 0) << compile;
  }
  ~CuratorProgram() { std::filesystem::remove_all(classes_); }
  CuratorProgram(const CuratorProgram&) = delete;
  CuratorProgram& operator=(const CuratorProgram&) = delete;

  static bool installed(const std::string& jar) { return std::filesystem::exists(file_of(jar)); }

  /// That starts it; the options of the virtual machine are for a quick start.
  std::vector<std::string> command(const std::vector<std::string>& arguments) const {
    // It prints what others wrote, whatever the language of this machine is.
    std::vector<std::string> words = {"java", "-Dfile.encoding=UTF-8"};
    words.insert(words.end(), {"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx128m"});
    words.insert(words.end(), {"-cp", path_, name_});
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
  }

 private:
  static std::string file_of(const std::string& jar) {
    const char* given = std::getenv("ZKRECIPES_JARS");
    return std::string(given != nullptr ? given : "/usr/share/java") + "/" + jar + ".jar";
  }

  const std::string name_;
  std::filesystem::path classes_;
  std::string path_;
};

}  // namespace testkit
