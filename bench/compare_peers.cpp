#include "compare_peers.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>

#include "kept_log.hpp"

namespace bench {

std::string beside_this_program(std::string_view name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

Comparison::Comparison(const RunOptions& options)
    : options_(options), folder_(fmt::format("/zkrecipes-bench-{}", ::getpid())), peers_(options.alone) {
  const auto external = zktesting::external_server();
  if (!external) own_server_.emplace();
  server_ = external ? *external : own_server_->connect_string();
  client_ = std::make_unique<zkclient::Client>(server_);
  client_->ensure(folder_, zkclient::CreateMode::persistent);
}

Comparison::~Comparison() {
  rows_.clear();
  std::error_code ignored;  // Of use on a server that is not ours, and not vital there.
  client_->remove_tree(folder_, {}, ignored);
}

std::string Comparison::add_parent(const std::string& name) {
  const zkclient::Path parent = folder_ / name;
  client_->ensure(parent, zkclient::CreateMode::persistent);
  return parent.str();
}

void Comparison::add(const char* name, std::unique_ptr<Contender> contender) {
  if (contender != nullptr) rows_.push_back({std::move(contender), {name, {}}});
}

void Comparison::measure() {
  for (Row& row : rows_) {
    if (options_.warmup.count() > 0) (void)row.contender->run(options_.warmup);
  }
  for (int round = 0; round < options_.rounds; ++round) {
    for (const std::size_t i : order_of_round(round, rows_.size()))
      rows_[i].series.samples.push_back(rows_[i].contender->run(options_.slice));
  }
}

void Comparison::compare(const char* contender, const char* reference, std::optional<double> target) {
  const auto find = [&](std::string_view name) {
    return std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.series.name == name; });
  };
  const auto one = find(contender);
  const auto other = find(reference);
  if (one != rows_.end() && other != rows_.end()) ratios_.push_back(bench::compare(one->series, other->series, target));
}

Report Comparison::report(const std::string& benchmark, const std::string& setting) {
  Report report;
  report.benchmark = benchmark;
  report.setting = fmt::format("{}; {} rounds of {} ms for each contender, server {}", setting, options_.rounds,
                               options_.slice.count(), own_server_ ? "of our own, without fsync" : server_);
  for (Row& row : rows_)
    report.series.push_back(std::move(row.series));
  report.ratios = std::move(ratios_);
  report.notes = peers_.notes;
  return report;
}

int compare_main(const char* name, const char* usage, const std::vector<std::string>& arguments,
                 const std::function<Report(const RunOptions&)>& run) {
  try {
    const KeptLog kept;
    const RunOptions options = parse_run_options(arguments);
    if (options.help) {
      fmt::print("{}{}", usage, run_options_usage);
      return 0;
    }
    ::signal(SIGPIPE, SIG_IGN);  // A child that has ended is told by an exception.
    const Report report = run(options);
    fmt::print("{}", report.text());
    if (!options.json_file.empty()) {
      std::ofstream out(options.json_file);
      out << report.json();
      out.close();
      if (!out) throw std::runtime_error("cannot write " + options.json_file);
    }
    return 0;
  } catch (const std::invalid_argument& error) {
    fmt::print(stderr, "{}: {}\n{}{}", name, error.what(), usage, run_options_usage);
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 1;
  }
}

}  // namespace bench
