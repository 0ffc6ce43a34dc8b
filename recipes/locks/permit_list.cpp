#include <algorithm>
#include <utility>

#include "recipes/kernel/words.hpp"
#include "recipes/locks/permits.hpp"

namespace zkrecipes::detail {

Awaitable<Result<std::vector<Contender>>> list_permits(ContendSpecPtr leases, ContendSpecPtr turn,
                                                       std::string operation, Call call) {
  Result<std::vector<Contender>> all = co_await list_contenders(leases, operation, call);
  if (!all) co_return all;
  Result<std::vector<Contender>> waiting = co_await list_contenders(turn, operation, call);
  if (!waiting) co_return waiting;
  // The waiter in front has nodes among the leases already, of one transaction: they are not granted yet.
  for (const Contender& front : *waiting) {
    if (!front.holds) continue;
    FencingToken newest = front.token;
    for (const Contender& lease : *all) {
      if (lease.session_id == front.session_id) newest = std::max(newest, lease.token);
    }
    for (Contender& lease : *all)
      lease.holds = lease.holds && lease.token != newest;
  }
  for (Contender& contender : *waiting) {
    contender.holds = false;
    all->push_back(std::move(contender));
  }
  co_return all;
}

}  // namespace zkrecipes::detail
