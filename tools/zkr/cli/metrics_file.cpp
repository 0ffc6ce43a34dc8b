#include "tools/zkr/cli/metrics_file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <string_view>
#include <utility>

#include <fmt/format.h>
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

[[noreturn]] void fail_to_write(const std::string& file, const std::string& why) {
  throw Failure(exit_system, file + ": " + why);
}

/// It would be replaced: a device, a pipe, a link to where others look.
void refuse_what_is_no_file(const std::string& file) {
  struct stat there {};
  if (::lstat(file.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) fail_to_write(file, "this is no regular file");
}

/// Nobody else's, as several processes may write the same file. Collectors pass over it: it does not end with ".prom".
std::string name_for_new(const std::string& file) {
  std::random_device random;
  return fmt::format("{}.new-{:08x}{:08x}", file, random(), random());
}

}  // namespace

void add_metrics_option(CLI::App& app, std::string& file) {
  app.add_option("--metrics", file, "Write there every 10 s what this process's client counts, as OpenMetrics text")
      ->type_name("FILE");
}

void write_metrics(const std::string& file, const zkclient::Metrics& metrics) {
  refuse_what_is_no_file(file);
  const std::string next = name_for_new(file);
  const Descriptor descriptor(::open(next.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!descriptor) fail_to_write(file, std::strerror(errno));
  if (write_whole(descriptor.get(), metrics.to_openmetrics()) && ::rename(next.c_str(), file.c_str()) == 0) return;
  const int error = errno;
  ::unlink(next.c_str());
  fail_to_write(file, std::strerror(error));
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
