// Up to which number is all settled, and what does that say of time?

#include "recipes/views/mirror_model.hpp"

#include <algorithm>

namespace zkrecipes::detail {

std::uint64_t MirrorModel::settled_up_to() const { return std::min(before(unsettled_), before(unjudged_)); }

// The first snapshot waits for all names that were there; later ones do not wait for a filter that takes long.
bool MirrorModel::caught_up() const {
  const std::uint64_t up_to = revision_ == 0 ? settled_up_to() : before(unsettled_);
  return connected_ && barrier_answered_ && up_to >= target_;
}

bool MirrorModel::covers(std::uint64_t number) const {
  if (revision_ == 0) return false;
  return (changed_ ? published_up_to_ : settled_up_to()) >= number;
}

// What had been committed before `time`, and is watched, has had its event: it is dirty with a number up to the
// present one, or was read after it. What was not watched yet has such a number as well. An answer that came before
// such an event ends no number of it: the side has a number for the read that is sent again. And no read that is sent
// from now on is answered by a server that lags behind `time`: this session has seen a later transaction. So once all
// up to the present number is in what was published, exact or not, so is all that had been committed before `time`,
// whatever has been told since. That takes the session: the next one begins at another server, and nothing is left to
// wait for.
//
// One pair at a time: when it is contained, the newest time is the next.
void MirrorModel::told_up_to(zkclient::BootClock::time_point time) {
  if (!current_) return;
  take_told();
  if (told_.time == as_of_ && time > as_of_) told_ = {time, last_number_};
  take_told();
}

void MirrorModel::take_told() {
  if (covers(told_.mark)) as_of_ = told_.time;
}

void MirrorModel::unsettle(Node& node, MirrorSide which, std::uint64_t number) {
  Side& side = side_of(node, which);
  switch (side.progress) {
    case Progress::clean:
      side.progress = Progress::due;
      side.number = number;
      ++unsettled_[number];
      enqueue(node, which);
      break;
    case Progress::sent:
      side.progress = Progress::sent_again;
      side.again = number;
      break;
    case Progress::due:
    case Progress::sent_again: break;
  }
  if (number < side.number) {  // Passed on by the other side, whose number ends now: this one has waited for less long.
    end_number(unsettled_, side.number);
    side.number = number;
    ++unsettled_[number];
  }
}

void MirrorModel::end_number(Numbers& numbers, std::uint64_t number) {
  const auto found = numbers.find(number);
  if (--found->second == 0) numbers.erase(found);
}

void MirrorModel::end_numbers(const NameFilter::Numbers& numbers) {
  for (const std::uint64_t number : numbers)
    end_number(unjudged_, number);
}

void MirrorModel::settle(Side& side) {
  if (side.progress == Progress::clean) return;
  end_number(unsettled_, side.number);
  side.progress = Progress::clean;
  side.read = 0;
}

void MirrorModel::answered(Node& node, MirrorSide which, bool done) {
  Side& side = side_of(node, which);
  const bool again = side.progress == Progress::sent_again;
  side.read = 0;
  if (done && !again) {
    settle(side);
    return;
  }
  side.progress = Progress::due;
  if (done) {
    end_number(unsettled_, side.number);
    side.number = side.again;
    ++unsettled_[side.number];
  }
  enqueue(node, which);
}

}  // namespace zkrecipes::detail
