#include "tools/zkr/run/lease_page.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <system_error>

namespace zkr {

LeasePage::LeasePage() : memory_(::memfd_create("zkr-lease", MFD_CLOEXEC)) {
  void* page = MAP_FAILED;
  if (memory_ && ::ftruncate(memory_.get(), sizeof(Content)) == 0)
    page = ::mmap(nullptr, sizeof(Content), PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0);
  if (page == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "a page for the lease");
  content_ = new (page) Content{};
}

LeasePage::~LeasePage() { ::munmap(content_, sizeof(Content)); }

void LeasePage::write(const Lease& lease) {
  content_->timeout.store(lease.timeout.count());
  content_->token.store(lease.token);
  content_->granted_at.store(lease.granted_at.time_since_epoch().count());
  content_->valid_until.store(lease.valid_until.time_since_epoch().count());
}

void LeasePage::begin(Instant asked_at) {
  content_->granted_at.store(0);
  content_->asked_at.store(asked_at.time_since_epoch().count());
}

std::optional<Instant> LeasePage::granted_at() const {
  const std::int64_t when = content_->granted_at.load();
  if (when == 0) return std::nullopt;
  return Instant(Duration(when));
}

}  // namespace zkr
