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

void LeasePage::write(Instant valid_until, Duration timeout, std::uint64_t token) {
  content_->timeout.store(timeout.count());
  content_->token.store(token);
  content_->valid_until.store(valid_until.time_since_epoch().count());
}

}  // namespace zkr
