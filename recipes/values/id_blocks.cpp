#include <zkrecipes/id_blocks.hpp>

#include <utility>

#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/values/block_core.hpp"

namespace zkrecipes {

using namespace words;
using detail::BlockCore;

namespace {

constexpr const char* id_blocks = "id blocks";
constexpr const char* taking_id = "id blocks next";
constexpr std::int64_t largest_block = 1'000'000'000;

std::shared_ptr<BlockCore> make_core(const zkclient::Client& client, const zkclient::Path& path,
                                     const IdBlocksOptions& options) {
  detail::require_acl(id_blocks, path, options.acl);
  const auto refuse = [&](const char* why) { throw Error(Errc::invalid_argument, id_blocks, path.str(), why); };
  if (path.is_root()) refuse("the root holds no number");
  if (options.block < 1 || options.block > largest_block) refuse("`block` must be from 1 to a billion");
  return std::make_shared<BlockCore>(client.impl(), client.impl()->full(path), options);
}

}  // namespace

struct IdBlocks::State {
  State(zkclient::Client user, zkclient::Path where, std::shared_ptr<BlockCore> blocks)
      : client(std::move(user)), path(std::move(where)), core(std::move(blocks)) {}
  ~State() { core->abandon(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const zkclient::Client client;  // Stays open for as long as it is used here.
  const zkclient::Path path;      // As the user wrote it.
  const std::shared_ptr<BlockCore> core;

  zk::CallForm form() const { return zk::CallForm(client.impl(), taking_id, path.str()); }
  zk::Work<std::int64_t> work() const {
    return [blocks = core, where = path.str()](zk::Call limits) {
      return BlockCore::next(blocks, taking_id, where, std::move(limits));
    };
  }
};

IdBlocks::IdBlocks(zkclient::Client client, zkclient::Path path, IdBlocksOptions options) {
  auto core = make_core(client, path, options);
  state_ = std::make_unique<State>(std::move(client), std::move(path), std::move(core));
}
IdBlocks::~IdBlocks() = default;
IdBlocks::IdBlocks(IdBlocks&&) noexcept = default;
IdBlocks& IdBlocks::operator=(IdBlocks&&) noexcept = default;

const zkclient::Path& IdBlocks::path() const noexcept { return state_->path; }

std::int64_t IdBlocks::next(const CallOptions& call) {
  if (const auto id = state_->core->take()) return *id;
  return state_->form().wait(call, state_->work());
}
void IdBlocks::async_next(zkclient::Handler<std::int64_t> handler, const CallOptions& call) {
  state_->form().start(call, state_->work(), std::move(handler));
}

}  // namespace zkrecipes
