// counter get, add: a number that many clients change.

#include <charconv>
#include <string>

#include <zkrecipes/counter.hpp>

#include "tools/zkr/cli/data_option.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/commands.hpp"

namespace zkr {
namespace {

struct CounterPlace {
  std::string path;
  std::string encoding = "int64";
  DataOption delta;
};

zkrecipes::CounterEncoding encoding_of(const CounterPlace& place) {
  if (place.encoding == "int32") return zkrecipes::CounterEncoding::curator_int32;
  if (place.encoding == "kazoo") return zkrecipes::CounterEncoding::kazoo;
  return zkrecipes::CounterEncoding::curator_int64;
}

// What other programs write has a line break at its end.
std::int64_t parse_delta(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw Failure(exit_usage, "\"" + text + "\" is no number");
  }
  return number;
}

int run_counter_get(const Context& context, const CounterPlace& options) {
  const zkclient::Path path(options.path);
  const zkrecipes::Counter counter(connect_to_look(context), path, {.encoding = encoding_of(options)});
  const std::int64_t value = counter.get();
  if (context.json) {
    write_line(json::object{{"path", path.str()}, {"value", value}});
  } else {
    write_line(std::to_string(value));
  }
  return exit_success;
}

int run_counter_add(const Context& context, const CounterPlace& options) {
  const zkclient::Path path(options.path);
  const std::int64_t delta = parse_delta(options.delta.required_bytes(context.words));
  zkrecipes::Counter counter(connect(context), path, {.encoding = encoding_of(options)});
  const zkrecipes::CounterChange change = counter.add(delta);
  if (context.json) {
    write_line(json::object{{"path", path.str()}, {"before", change.before}, {"after", change.after}});
  } else if (!context.quiet) {
    write_line(std::to_string(change.after));
  }
  return exit_success;
}

void add_counter_options(CLI::App* command, CounterPlace& options) {
  command->add_option("PATH", options.path, "The counter")->required();
  command->add_option("--encoding", options.encoding, "How the number stands in the node; int64")
      ->check(CLI::IsMember({"int64", "int32", "kazoo"}));
}

}  // namespace

void add_counter(CLI::App& app, Context& context) {
  CLI::App* counter = app.add_subcommand("counter", "A number that many clients change: get, add");
  counter->require_subcommand(1);
  const auto get = add_subcommand(*counter, context, "get", "Write the number; 0 if there is none", run_counter_get);
  add_counter_options(get.app, *get.options);
  const auto add =
      add_subcommand(*counter, context, "add", "Add to it, exactly once; write the new number", run_counter_add, true);
  add_counter_options(add.app, *add.options);
  add->add_option("NUMBER", add.options->delta.word, "What is added; a negative number stands behind --");
}

}  // namespace zkr
