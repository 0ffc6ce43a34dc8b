#include "tools/zkr/cli/program.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <string>

#include "tools/zkr/cli/context.hpp"
#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/commands/commands.hpp"
#include "tools/zkr/run/descriptor.hpp"

namespace zkr {
namespace {

void add_common_options(CLI::App& app, Context& context) {
  add_connection_options(app, context.connection);
  app.add_flag("-q,--quiet", context.quiet, "No messages but errors");
  app.add_flag("-v,--verbose", context.verbose, "More messages");
  app.add_flag("--json", context.json, "Data as JSON, a value a line");
  app.set_version_flag("--version", "zkr " ZKR_VERSION, "Print the version of zkr and exit");
}

int complain(const std::string& text, int code) {
  if (!text.empty()) std::fprintf(stderr, "zkr: %s\n", text.c_str());
  return code;
}

/// A request for help, or for the version, is a parse error of CLI11's with the code 0.
int end_parsing(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  return complain(error.what() + std::string("\nzkr: --help says more"), exit_usage);
}

int run(Context& context, CLI::App& app) {
  std::vector<std::string> words = context.words.own;
  std::reverse(words.begin(), words.end());  // As CLI11 wants them.
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return end_parsing(app, error);
  }
  return context.action();
}

}  // namespace

void set_up_program(CLI::App& app, Context& context) {
  app.require_subcommand(1);
  app.fallthrough();  // Common options may stand behind the command's name as well.
  add_common_options(app, context);
  add_commands(app, context);
}

int run_program(int argc, char** argv) {
  occupy_standard_descriptors();
  Context context;
  CLI::App app("Coordination on Apache ZooKeeper", "zkr");
  try {
    context.words = split_words(argc, argv);
    set_up_program(app, context);
    return run(context, app);
  } catch (const Failure& failure) {
    return complain(failure.what(), failure.code());
  } catch (const zkclient::Error& error) {
    return complain(explain(error, context.identities), exit_code_of(error.errc()));
  } catch (const std::exception& error) {
    return complain(error.what(), exit_bug);
  }
}

}  // namespace zkr
