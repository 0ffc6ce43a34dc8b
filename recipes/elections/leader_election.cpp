#include <zkrecipes/leader_election.hpp>

#include "recipes/elections/election_core.hpp"

namespace zkrecipes {

LeaderElection::LeaderElection(zkclient::Client client, zkclient::Path path, LeaderElectionOptions options)
    : Election(detail::make_fair_election(std::move(client), std::move(path), std::move(options.id), options.layout,
                                          std::move(options.acl), {"latch", {"latch-", "__lock__"}})) {}

}  // namespace zkrecipes
