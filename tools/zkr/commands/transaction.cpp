// txn: several changes, all of them or none.

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/commands.hpp"
#include "tools/zkr/commands/line_words.hpp"

namespace zkr {
namespace {

struct TransactionOptions {};

/// The lines that were read. An operation knows its line, which is counted with comments and empty lines.
struct TransactionText {
  struct Operation {
    int line;
    std::string name;
    std::string path;
  };
  zkclient::Transaction transaction;
  std::vector<Operation> operations;
};

/// Takes the words of one line from the first to the last.
class TransactionLine {
 public:
  TransactionLine(std::vector<std::string> words, std::string where)
      : words_(std::move(words)), where_(std::move(where)) {}

  [[noreturn]] void refuse(const std::string& what) const { throw Failure(exit_format, where_ + ": " + what); }
  bool done() const { return next_ == words_.size(); }
  bool skip(const char* word) {
    const bool there = !done() && words_[next_] == word;
    if (there) ++next_;
    return there;
  }
  std::string take(const char* what) {
    if (done()) refuse(std::string("no ") + what);
    return words_[next_++];
  }
  zkclient::Path take_path() {
    const std::string text = take("path");
    try {
      return zkclient::Path(text);
    } catch (const zkclient::Error& error) {
      refuse(error.what());
    }
  }
  std::int32_t take_version() {
    if (done()) return zkclient::any_version;
    const std::string text = take("version");
    std::int32_t version = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
    if (error != std::errc() || end != text.data() + text.size() || version < 0) {
      refuse("\"" + text + "\" is no version");
    }
    return version;
  }

 private:
  std::vector<std::string> words_;
  std::size_t next_ = 0;
  std::string where_;
};

void add_operation(TransactionText& text, int number, TransactionLine line) {
  const std::string name = line.take("operation");
  const bool sequential = name == "create" && line.skip("-s");
  if (name != "check" && name != "create" && name != "set" && name != "delete") {
    line.refuse("\"" + name + "\" is no operation: check, create, set, delete");
  }
  const zkclient::Path path = line.take_path();
  if (name == "check") {
    text.transaction.check(path, line.take_version());
  } else if (name == "delete") {
    text.transaction.remove(path, line.take_version());
  } else if (name == "set") {
    const std::string data = line.take("data");
    text.transaction.set(path, data, line.take_version());
  } else {
    zkclient::CreateOptions how;
    if (sequential) how.mode = zkclient::CreateMode::persistent_sequential;
    text.transaction.create(path, line.done() ? "" : line.take("data"), how);
  }
  if (!line.done()) line.refuse("there are words too many");
  text.operations.push_back({number, name, path.str()});
}

// All of it, before anything is sent.
TransactionText parse_transaction(std::string_view input) {
  TransactionText text;
  for (int number = 1; !input.empty(); ++number) {
    const std::size_t end = std::min(input.find('\n'), input.size());
    const std::string where = fmt::format("line {}", number);
    std::vector<std::string> words = words_of_line(input.substr(0, end), where);
    if (!words.empty()) add_operation(text, number, TransactionLine(std::move(words), where));
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  if (text.operations.empty()) throw Failure(exit_format, "no operation on standard input: check, create, set, delete");
  return text;
}

std::vector<zkclient::OperationResult> commit_lines(const Context& context, const TransactionText& text) {
  try {
    return connect(context).commit(text.transaction);
  } catch (const zkclient::Error& error) {
    const auto refused = error.refused();
    if (!refused) throw;
    const TransactionText::Operation& operation = text.operations.at(refused->index);
    // The exit code is that of the operation alone.
    throw Failure(exit_code_of(refused->reason),
                  fmt::format("line {}: {} {}: {}; nothing was changed", operation.line, operation.name, operation.path,
                              zkclient::make_error_code(refused->reason).message()));
  }
}

int run_transaction(const Context& context, const TransactionOptions&) {
  const TransactionText text = parse_transaction(read_input());
  const auto results = commit_lines(context, text);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const TransactionText::Operation& operation = text.operations[i];
    const bool made = operation.name == "create";
    const std::string& path = made ? results[i].path : operation.path;
    if (context.json) {
      const auto& stat = results[i].stat;
      write_line(json::object{{"line", operation.line},
                              {"operation", operation.name},
                              {"path", path},
                              {"stat", stat ? json::value(json_of(*stat)) : json::value(nullptr)}});
    } else if (path != operation.path) {
      write_line(path);  // Only the server knew it.
    }
  }
  return exit_success;
}

}  // namespace

void add_txn(CLI::App& app, Context& context) {
  add_subcommand(app, context, "txn",
                 "All changes on standard input, or none: check PATH [VERSION], create [-s] PATH [DATA], set PATH DATA "
                 "[VERSION], delete PATH [VERSION], one a line",
                 run_transaction);
}

}  // namespace zkr
