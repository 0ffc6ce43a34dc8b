#include "tools/zkr/hold/work_board.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <new>
#include <system_error>

namespace zkr {
namespace {

/// So that returned ones do not overflow it.
constexpr std::uint64_t no_limit = std::numeric_limits<std::int64_t>::max() / 2;

std::int64_t steady_now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

WorkBoard::WorkBoard(std::optional<std::uint64_t> most_items) {
  void* memory = ::mmap(nullptr, sizeof(Content), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "memory to be shared");
  content_ = new (memory) Content{};
  content_->tickets.store(static_cast<std::int64_t>(std::min(most_items.value_or(no_limit), no_limit)));
  content_->idle_since.store(steady_now());
}

WorkBoard::~WorkBoard() { ::munmap(content_, sizeof(Content)); }

bool WorkBoard::take_ticket() {
  if (content_->tickets.fetch_sub(1) > 0) return true;
  return_ticket();
  return false;
}

void WorkBoard::item_ends() {
  content_->idle_since.store(steady_now());
  content_->at_work.fetch_sub(1);
}

std::optional<WorkBoard::SteadyTime> WorkBoard::idle_since() const {
  if (content_->at_work.load() > 0) return std::nullopt;
  return SteadyTime(std::chrono::steady_clock::duration(content_->idle_since.load()));
}

}  // namespace zkr
