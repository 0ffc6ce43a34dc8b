#include "recipes/kernel/attempt.hpp"

namespace zkrecipes::detail {

Attempt::Attempt(std::shared_ptr<zk::ClientCore> client, Call call, std::string operation, std::string path)
    : client_(std::move(client)),
      waiter_(client_, std::move(call)),
      operation_(std::move(operation)),
      path_(std::move(path)) {}

void Attempt::remove_sequential(const std::string& directory, const std::string& marker,
                                const std::vector<std::string>& paths) {
  for (const std::string& path : paths)
    zk::delete_in_background(client_, path, waiter_.session());
  if (paths.empty()) zk::delete_marked_in_background(client_, directory, marker, waiter_.session());
}

Attempt::Outcome Attempt::end(Reply reply) {
  return reply.failed(Errc::no_node) ? Outcome::vanished : fail(std::move(reply));
}

Attempt::Outcome Attempt::fail(Reply reply) {
  // Only our own nodes are in doubt, and they will be removed.
  if (reply.failed(Errc::in_doubt)) reply.error = reply.given_up.value_or(Errc::connection_loss);
  return fail(zk::to_error(reply, operation_, path_));
}

Attempt::Outcome Attempt::fail(Error error) {
  failure_.emplace(std::move(error));
  return Outcome::failed;
}

LeaseCore::Grant Attempt::make_grant(std::string path, std::int64_t czxid) const {
  LeaseCore::Grant grant;
  grant.client = client_;
  grant.session = waiter_.session();
  grant.keeper = waiter_.keeper();
  grant.path = std::move(path);
  grant.czxid = czxid;
  return grant;
}

void Attempt::grant(LeaseCore::Grant grant) {
  leases_.push_back(std::make_shared<LeaseCore>(std::move(grant)));
  leases_.back()->begin();
}

Awaitable<Attempt::Outcome> Attempt::prove_and_grant(Request own_nodes, LeaseCore::Grant grant) {
  Reply proven = co_await waiter_.prove(std::move(own_nodes));
  if (!proven.ok()) co_return end(std::move(proven));
  this->grant(std::move(grant));
  co_return Outcome::granted;
}

}  // namespace zkrecipes::detail
