#pragma once

#include <cstdint>
#include <memory>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/counter.hpp>

namespace zkrecipes {

struct IdBlocksOptions {
  /// For every node that the recipe creates.
  zkclient::AclList acl = zkclient::open_acl();
  /// How many ids are reserved at a time. What a process that ends has not used of them is never used. From 1 to a
  /// billion.
  std::int64_t block = 1'000;
  /// How the number is written into the node.
  CounterEncoding encoding = CounterEncoding::curator_int64;
};

/// Unique numbers for many processes, which ask the server once for each block of them. Source: the hi/lo generators of
/// databases; Leaf's segments, which fetch the next block before the present one is used up.
///
///   parent (container, if it was missing)
///    |-- <path>                persistent; data: the highest id that is reserved: a Counter
///    '-- _c_writes (container) ephemeral nodes that make writes happen once: exactly_once.md
///
/// Invariant: an id is at most the number in the node, and in the block that one addition to it has reserved.
///
/// Guaranteed: no id is given out twice, by whichever process; ids of one object grow. The first one is 1, or what
/// follows the number that is in the node.
/// Not guaranteed: an order among processes; that there are no gaps: a process that ends, and a reservation whose reply
/// was lost together with the session, leave some.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// reserving: request or reply lost         nothing: the block is reserved once
/// session lost while reserving             nothing: another block is reserved; perhaps a gap
/// connection breaks                        nothing as long as there are ids: half a block at least; then next() waits
/// other processes reserve meanwhile        nothing: blocks follow each other
/// deadline, stop request                   deadline_exceeded, cancelled; the block comes all the same, for later calls
/// the next block is beyond the encoding    invalid_argument once the present block is used up
/// the node holds no number                 foreign_node, once the present block is used up
/// node deleted, or set back, by hand       ids come again: the node is the only memory
/// client closed                            the ids at hand are given out; then next() throws closed
///
/// In a forked child next() throws forked: the ids at hand are the parent's.
///
/// Thread safety: all members. The object keeps its client open. A moved-from object may only be destroyed or assigned
/// to.
class ZKRECIPES_API IdBlocks {
 public:
  /// No I/O. Errors: invalid_acl (see acl_defect()), invalid_argument (`path` is the root, `block` is not from 1 to a
  /// billion).
  IdBlocks(zkclient::Client client, zkclient::Path path, IdBlocksOptions options = {});
  ~IdBlocks();
  IdBlocks(IdBlocks&&) noexcept;
  IdBlocks& operator=(IdBlocks&&) noexcept;

  /// The next id. Takes no round trip as long as there are ids at hand; the next block is reserved in the background
  /// when half of the present one is used. Blocks only until that has come. Errors: see the table, and those common to
  /// all operations of Client.
  std::int64_t next(const zkclient::CallOptions& call = {});
  void async_next(zkclient::Handler<std::int64_t> handler, const zkclient::CallOptions& call = {});

  const zkclient::Path& path() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zkrecipes
