#pragma once

#include <memory>
#include <string_view>

#include <zkrecipes/claim.hpp>

#include "recipes/queues/queue_core.hpp"

namespace zkrecipes::detail {

/// The state behind a Claim.
class ClaimState {
 public:
  ClaimState(std::shared_ptr<QueueCore> core, Taken taken) : core_(std::move(core)), taken_(std::move(taken)) {}

  const std::shared_ptr<QueueCore>& core() const noexcept { return core_; }
  const Taken& taken() const noexcept { return taken_; }
  std::string_view id() const { return core_->spec().format.id_of(taken_.key.name); }
  const std::shared_ptr<zk::ClientCore>& client() const noexcept { return core_->spec().client; }

 private:
  std::shared_ptr<QueueCore> core_;
  Taken taken_;
};

}  // namespace zkrecipes::detail
