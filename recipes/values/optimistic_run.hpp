#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>

#include <zkrecipes/optimistic.hpp>

#include "recipes/kernel/exactly_once_writer.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/values/transaction_set.hpp"

namespace zkrecipes::detail {

/// What every call of an Optimistic needs until its end.
struct OptimisticSpec {
  std::shared_ptr<zk::ClientCore> client;
  zkclient::Path path;  ///< As the user wrote it.
  OptimisticOptions options;
  std::shared_ptr<ExactlyOnceWriter> writer;

  zk::CallForm form() const;
};
using OptimisticSpecPtr = std::shared_ptr<const OptimisticSpec>;

/// One call: runs the function, and again, until its changes are written. It blocks its thread, which is the user's.
class OptimisticRun {
 public:
  OptimisticRun(OptimisticSpecPtr spec, const Optimistic::Function& function, zkclient::CallOptions call);

  /// Throws what the call ends with.
  void run();

  // --- For the view ---
  const std::optional<std::string>& data(const zkclient::Path& path);
  std::vector<std::string> names(const zkclient::Path& path);
  void set(const zkclient::Path& path, std::string_view data);
  void create(const zkclient::Path& path, std::string_view data);
  void remove(const zkclient::Path& path);
  int attempt() const noexcept { return attempt_; }

 private:
  bool try_once();
  /// Reads again what the last attempt has read.
  void read_again();
  std::string known(const zkclient::Path& path);
  /// True: applied. False: what was read is outdated.
  bool commit(bool writing);
  template <typename T, typename Work>
  T read(const zkclient::Path& path, Work work);
  [[noreturn]] void fail(zkclient::Errc error, const zkclient::Path& path, std::string_view detail) const;

  const OptimisticSpecPtr spec_;
  const Optimistic::Function& function_;
  const zkclient::CallOptions call_;
  int attempt_ = 0;
  TransactionSet set_;
  std::exception_ptr broken_;  // A read has failed: there is no going on.
};

}  // namespace zkrecipes::detail
