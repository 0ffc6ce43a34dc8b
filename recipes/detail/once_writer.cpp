#include "recipes/detail/once_writer.hpp"

#include <algorithm>
#include <utility>

#include "recipes/detail/waiter.hpp"
#include "zkclient/detail/uuid.hpp"

namespace zkrecipes::detail {

using zk::Awaitable;
using zk::Call;
using zk::OpType;
using zk::Reply;
using zk::Request;
using zkclient::CreateMode;
using zkclient::Errc;
using zkclient::Path;
using zkclient::Transaction;

namespace {

// Which operation was refused, and why; the reply of a failed transaction names the first one.
void find_refusal(Written& written) {
  const std::vector<int>& codes = written.reply.codes;
  written.index = 0;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] == zk::rc::ok || codes[i] == zk::rc::runtime_inconsistency) continue;
    written.index = i;
    written.code = codes[i];
    return;
  }
  written.code = zk::rc::runtime_inconsistency;
}

}  // namespace

struct OnceWriter::Applicant {
  Applicant(boost::asio::io_context& context, std::shared_ptr<zk::SessionState> bound)
      : wake(context), session(std::move(bound)) {}

  zk::Signal wake;
  const std::shared_ptr<zk::SessionState> session;
  SlotPtr slot;
  std::optional<Reply> failure;
};

OnceWriter::OnceWriter(std::shared_ptr<zk::ClientCore> client, std::string directory, zkclient::AclList acl)
    : client_(std::move(client)), directory_(std::move(directory)), acl_(std::move(acl)) {}

OnceWriter::~OnceWriter() {
  for (const SlotPtr& slot : free_)
    client_->janitor_remove(slot->path, slot->session);
}

Awaitable<Written> OnceWriter::write(std::vector<Transaction::Operation> operations, Call call) {
  Written written;
  bool doubted = false;  // An attempt was sent whose answer never came.
  SlotPtr slot;
  for (;;) {
    if (slot == nullptr) {
      written.reply = co_await get_slot(call, slot);
      if (!written.reply.ok()) co_return written;
    }
    Request request = zk::make_request(OpType::multi, slot->path);
    request.operations.reserve(operations.size() + 1);
    request.operations.emplace_back(Transaction::Set{Path(slot->path), std::string(), slot->version});
    request.operations.insert(request.operations.end(), operations.begin(), operations.end());
    written.reply = co_await client_->perform(std::move(request), call);
    const Reply& reply = written.reply;
    if (reply.failed(Errc::in_doubt) && !reply.given_up) {
      doubted = true;  // Send it again: it is applied once at most.
      continue;
    }
    if (reply.failed(Errc::transaction_failed)) find_refusal(written);
    const bool of_slot = reply.failed(Errc::transaction_failed) && written.index == 0;
    if (reply.ok() || (doubted && of_slot && written.code == zk::rc::bad_version)) {
      written.outcome = Written::Outcome::done;
      if (!reply.ok()) written.reply = Reply{};  // It proves nothing about when.
      if (!written.reply.results.empty()) written.reply.results.erase(written.reply.results.begin());
      ++slot->version;
      put_back(std::move(slot));
      co_return written;
    }
    const bool spoilt = of_slot && (written.code == zk::rc::no_node || written.code == zk::rc::bad_version);
    if (spoilt && !doubted) {  // Deleted or written by hand: take another one.
      forget(std::exchange(slot, nullptr));
      continue;
    }
    if (of_slot) written.reply.error = zk::rc::to_errc(written.code);
    if (reply.failed(Errc::transaction_failed)) {
      written.outcome = Written::Outcome::refused;
      --written.index;
      put_back(std::move(slot));
      co_return written;
    }
    const bool unknown = doubted || reply.failed(Errc::in_doubt);
    written.outcome = unknown ? Written::Outcome::in_doubt : Written::Outcome::failed;
    unknown ? discard(std::move(slot)) : put_back(std::move(slot));
    co_return written;
  }
}

Awaitable<Reply> OnceWriter::get_slot(Call call, SlotPtr& slot) {
  Applicant applicant(client_->context(), call.bound);
  const zk::CancelScope::Guard cancelled(call.cancel, [&applicant] { applicant.wake.set(); });
  const auto observer = call.bound->observe([&applicant] { applicant.wake.set(); });
  applicants_.push_back(&applicant);
  make_more();
  Reply reply;
  for (;;) {
    applicant.wake.clear();
    if (applicant.slot != nullptr) {
      slot = std::move(applicant.slot);
      break;
    }
    if (applicant.failure) {
      reply = std::move(*applicant.failure);
      break;
    }
    if (call.deadline && std::chrono::steady_clock::now() >= *call.deadline) reply.error = Errc::deadline_exceeded;
    if (call.cancel != nullptr && call.cancel->requested()) reply.error = Errc::cancelled;
    if (call.bound->over()) reply.error = Errc::session_lost;
    if (client_->closing()) reply.error = Errc::closed;
    if (!reply.ok()) break;
    co_await applicant.wake.wait(call.deadline);
  }
  std::erase(applicants_, &applicant);
  call.bound->forget(observer);
  co_return reply;
}

// Gives free slots to those who wait for one, in their order, and makes more if that is not enough.
void OnceWriter::make_more() {
  while (!applicants_.empty() && !free_.empty()) {
    SlotPtr slot = std::move(free_.front());
    free_.pop_front();
    Applicant& first = *applicants_.front();
    if (slot->session != first.session) {  // It went with its session.
      --slots_;
      continue;
    }
    first.slot = std::move(slot);
    first.wake.set();
    applicants_.pop_front();
  }
  while (applicants_.size() > making_ && slots_ < max_slots) {
    ++slots_;
    ++making_;
    client_->spawn(make_slot(shared_from_this(), applicants_[making_ - 1]->session));
  }
}

Awaitable<void> OnceWriter::make_slot(std::shared_ptr<OnceWriter> self, std::shared_ptr<zk::SessionState> session) {
  Call call;
  call.bound = session;
  Reply reply;
  for (;;) {
    auto made = std::make_unique<Slot>();
    made->path = child_path(self->directory_, zk::make_uuid());
    made->session = session;
    Request create = zk::make_request(OpType::create, made->path);
    create.data = std::string();
    create.mode = CreateMode::ephemeral;
    create.acl = self->acl_;
    reply = co_await self->client_->perform(std::move(create), call);
    if (reply.ok()) {
      --self->making_;
      self->put_back(std::move(made));
      co_return;
    }
    if (reply.failed(Errc::in_doubt)) {
      self->client_->janitor_remove(made->path, session);
      continue;
    }
    if (!reply.failed(Errc::no_node)) break;
    reply = co_await self->client_->ensure(self->directory_, CreateMode::container, self->acl_, call);
    if (!reply.ok()) break;
  }
  --self->making_;
  --self->slots_;
  const auto concerned = std::find_if(self->applicants_.begin(), self->applicants_.end(),
                                      [&](const Applicant* one) { return one->session == session; });
  if (concerned != self->applicants_.end()) {
    Applicant& first = **concerned;
    self->applicants_.erase(concerned);
    first.failure = std::move(reply);
    first.wake.set();
  }
  self->make_more();
}

void OnceWriter::put_back(SlotPtr slot) {
  free_.push_front(std::move(slot));
  make_more();
}

void OnceWriter::discard(SlotPtr slot) {
  client_->janitor_remove(slot->path, slot->session);
  forget(std::move(slot));
}

void OnceWriter::forget(SlotPtr slot) {
  slot.reset();
  --slots_;
  make_more();
}

}  // namespace zkrecipes::detail
