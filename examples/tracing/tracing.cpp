// Traces for OpenTelemetry: what the library does is told as children of the work that asked for it.
//   tracing [FILE]    appends spans to FILE (default: standard output). Servers: $ZKRECIPES_SERVER
// docs/metrics.md has a configuration of a collector that reads the file.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

#include <zkclient/client.hpp>
#include <zkrecipes/mutex.hpp>

#include "otlp_spans.hpp"

namespace {

void handle_order(const zkclient::Client& client) {
  zkrecipes::Mutex stock(client, "/examples/tracing/stock");
  const zkrecipes::Lease lease = stock.acquire();
  try {
    client.get("/examples/tracing/no such order");
  } catch (const zkclient::Error& error) {
    if (error.errc() != zkclient::Errc::no_node) throw;  // Its span has the error all the same.
  }
}

void run(std::FILE* out) {
  const auto spans = std::make_shared<OtlpSpans>("tracing example", out);
  const char* server = std::getenv("ZKRECIPES_SERVER");
  zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181", {.observer = spans});
  {
    const OtlpSpans::Work work(*spans, "handle order");
    handle_order(client);
  }
  client.close();  // All spans are told when this returns.
}

}  // namespace

int main(int argc, char** argv) try {
  std::FILE* out = argc > 1 ? std::fopen(argv[1], "a") : stdout;
  if (out == nullptr) throw std::runtime_error(std::string("cannot write ") + argv[1]);
  std::setvbuf(out, nullptr, _IOLBF, 0);  // A collector sees whole lines.
  run(out);
  if (out != stdout) std::fclose(out);
} catch (const std::exception& error) {
  std::fprintf(stderr, "tracing: %s\n", error.what());
  return EXIT_FAILURE;
}
