#include "simulation/servers/log_writer.hpp"

#include <utility>

namespace zktesting::simulated {

void LogWriter::append(TxnPtr txn, Act done) {
  disk_.write(std::move(txn));
  unflushed_ = true;
  gathered_.push_back(std::move(done));
  if (!flushing_) flush();
}

void LogWriter::then(Act done) {
  if (!flushing_) return done();
  gathered_.push_back(std::move(done));
}

void LogWriter::forget() {
  ++life_;
  flushing_ = unflushed_ = false;
  gathered_.clear();
  written_.clear();
}

void LogWriter::set_refusing(bool refusing) {
  if (refusing_ && !refusing && !flushing_) disk_.flushed(disk_.written());
  refusing_ = refusing;
}

void LogWriter::flush() {
  unflushed_ = false;
  flushing_ = true;
  written_.swap(gathered_);
  const Nanos latency(
      process_.events().random().between(latency_.least.count(), std::max(latency_.least, latency_.most).count()));
  process_.events().after(latency, [this, life = life_, records = disk_.written()] {
    if (life == life_) confirm(records);
  });
}

// The disk goes on while the process is stopped.
void LogWriter::confirm(std::size_t records) {
  const Nanos stalled = stalled_until_ - process_.now();
  if (stalled > Nanos(0)) {
    process_.events().after(stalled, [this, life = life_, records] {
      if (life == life_) confirm(records);
    });
    return;
  }
  if (refusing_) return process_.arrive(lane::log, refused_);
  disk_.flushed(records);
  process_.arrive(lane::log, [this, life = life_] {
    if (life == life_) finish();
  });
}

void LogWriter::finish() {
  const std::uint64_t life = life_;
  do {
    std::vector<Act> done;
    done.swap(written_.empty() ? gathered_ : written_);
    for (const Act& act : done)
      act();
    if (life != life_) return;
  } while (!gathered_.empty() && !unflushed_);  // They wait for nothing but what came before.
  flushing_ = false;
  if (!gathered_.empty()) flush();
}

}  // namespace zktesting::simulated
