#include "tools/zkr/cli/metrics_file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>

#include "tools/zkr/cli/context.hpp"
#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/run/descriptor.hpp"

namespace zkr {
namespace {

constexpr std::chrono::seconds metrics_pause(10);

bool write_whole(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t size = ::write(file, text.data(), text.size());
    if (size <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

}  // namespace

void add_metrics_option(CLI::App& app, std::string& file) {
  app.add_option("--metrics", file, "Write there every 10 s what this process's client counts, as OpenMetrics text")
      ->type_name("FILE");
}

void write_metrics(const std::string& file, const zkclient::Metrics& metrics) {
  // Collectors pass over this name, which does not end with ".prom".
  const std::string next = file + ".new";
  const Descriptor descriptor(::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  const bool written = descriptor && write_whole(descriptor.get(), metrics.to_openmetrics());
  if (!written || ::rename(next.c_str(), file.c_str()) != 0)
    throw Failure(exit_system, file + ": " + std::strerror(errno));
}

MetricsFile::MetricsFile(std::string file, std::shared_ptr<zkclient::Metrics> metrics)
    : file_(std::move(file)), metrics_(std::move(metrics)) {
  sigset_t all;
  sigset_t former;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &former);  // Signals are for threads that wait for them.
  thread_ = std::thread([this] { work(); });
  ::pthread_sigmask(SIG_SETMASK, &former, nullptr);
}

MetricsFile::~MetricsFile() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ending_changed_.notify_all();
  thread_.join();
}

void MetricsFile::work() {
  std::unique_lock lock(mutex_);
  do {
    lock.unlock();
    write();
    lock.lock();
  } while (!ending_changed_.wait_for(lock, metrics_pause, [this] { return ending_; }));
  lock.unlock();
  write();
}

void MetricsFile::write() const {
  try {
    write_metrics(file_, *metrics_);
  } catch (const Failure&) {
    // The disk may have room again.
  }
}

std::unique_ptr<MetricsFile> count_into(const Context& context, const std::string& file) {
  if (file.empty()) return nullptr;
  context.metrics = std::make_shared<zkclient::Metrics>();
  write_metrics(file, *context.metrics);
  return std::make_unique<MetricsFile>(file, context.metrics);
}

}  // namespace zkr
