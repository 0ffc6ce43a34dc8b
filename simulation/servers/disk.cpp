#include "simulation/servers/disk.hpp"

namespace zktesting::simulated {

namespace {

std::size_t left_of(std::size_t unconfirmed, Loss loss, Random& random) {
  switch (loss) {
    case Loss::last_one: return unconfirmed == 0 ? 0 : unconfirmed - 1;
    case Loss::all: return 0;
    case Loss::none: return unconfirmed;
    case Loss::any: break;
  }
  return static_cast<std::size_t>(random.below(unconfirmed + 1));
}

}  // namespace

void Disk::crash(Loss loss, Random& random) {
  const std::size_t kept = durable_ + left_of(log_.size() - durable_, loss, random);
  log_.resize(kept);
  durable_ = kept;
}

void Disk::wipe() {
  snapshot_ = empty_;
  snapshot_zxid_ = 0;
  log_.clear();
  durable_ = 0;
  accepted_epoch = current_epoch = 0;
}

std::size_t Disk::position_after(Zxid zxid) const {
  const auto found = std::upper_bound(log_.begin(), log_.end(), zxid,
                                      [](Zxid wanted, const TxnPtr& txn) { return wanted < txn->zxid; });
  return static_cast<std::size_t>(found - log_.begin());
}

Zxid Disk::last_up_to(Zxid zxid) const {
  const std::size_t position = position_after(zxid);
  return position == 0 ? snapshot_zxid_ : log_[position - 1]->zxid;
}

std::vector<TxnPtr> Disk::after(Zxid zxid) const {
  return {log_.begin() + static_cast<std::ptrdiff_t>(position_after(zxid)), log_.end()};
}

void Disk::truncate_after(Zxid zxid) {
  log_.resize(position_after(zxid));
  durable_ = std::min(durable_, log_.size());
}

void Disk::replace(const Tree& snapshot, Zxid zxid) {
  snapshot_ = snapshot;
  snapshot_.set_last_zxid(zxid);
  snapshot_zxid_ = zxid;
  log_.clear();
  durable_ = 0;
}

Tree Disk::load() const {
  Tree tree = snapshot_;
  for (const TxnPtr& txn : log_)
    tree.apply(*txn);
  return tree;
}

}  // namespace zktesting::simulated
