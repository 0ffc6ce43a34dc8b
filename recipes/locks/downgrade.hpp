#pragma once

#include "recipes/kernel/contend.hpp"

namespace zkrecipes::detail {

/// True for a lease of a writer in the directory of `readers`.
bool is_writer_of(const ContendSpec& readers, const LeaseCore& lease);

/// The next step of a downgrade after the flight in which it read the writer's node and tried to exchange the two
/// nodes.
enum class ExchangeStep {
  done,
  read_again,  ///< Another client wrote into the writer's node: exchange what was read now.
  look,        ///< Unknown: the reader's node tells.
  failed,
};

ExchangeStep decide_exchange(const zk::Reply& read, const zk::Reply& exchanged);

/// Makes a reader of the writer that `held` is, in the same place: one transaction deletes its node and creates a
/// reader's node with the same number (which is not sequential: the number is part of the name that is asked for, as
/// Curator does it from 5.5 on). Returns the lease that goes on. A full quota of nodes refuses that: only a new node
/// tells all readers, Curator's too, and the writer's cannot go first, as another writer would get in.
zk::Awaitable<zkclient::Result<LeasePtr>> downgrade(ContendSpecPtr readers, LeasePtr held, const char* operation,
                                                    zk::Call call);

}  // namespace zkrecipes::detail
