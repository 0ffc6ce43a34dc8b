#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "contender.hpp"

namespace bench {

/// A contender that is a program of its own, driven through its standard input and output (see
/// raw_program.hpp): the two flavours of the C client cannot live in one process.
///
/// The program ends when its input does, so it does not outlive this object nor this process.
class Child final : public Contender {
 public:
  /// Starts the program and waits until it is ready. Throws std::runtime_error.
  explicit Child(std::vector<std::string> command);
  ~Child() override;

  Sample run(std::chrono::milliseconds duration) override;
  /// Sends a line and waits for the answer.
  std::string ask(const std::string& line, std::chrono::milliseconds patience);

 private:
  void spawn();
  void shut_down();
  void send(const std::string& line);
  std::string receive(std::chrono::milliseconds patience);

  std::vector<std::string> command_;
  pid_t pid_ = -1;
  int to_child_ = -1;
  int from_child_ = -1;
  std::string received_;
};

}  // namespace bench
