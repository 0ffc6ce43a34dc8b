#include <zkrecipes/optimistic.hpp>

#include <exception>
#include <utility>

#include "recipes/kernel/acl_check.hpp"
#include "recipes/values/optimistic_run.hpp"

namespace zkrecipes {

using namespace words;
using detail::ExactlyOnceWriter;
using detail::OptimisticRun;
using detail::OptimisticSpec;
using detail::OptimisticSpecPtr;

namespace {

constexpr const char* optimistic_recipe = "optimistic";
constexpr const char* running_atomically = "atomically";

OptimisticSpecPtr make_spec(const std::shared_ptr<zk::ClientCore>& client, const Path& path,
                            OptimisticOptions options) {
  detail::require_acl(optimistic_recipe, path, options.acl);
  auto writer = ExactlyOnceWriter::make(client, client->full(path / "_c_writes"), options.acl);
  return std::make_shared<const OptimisticSpec>(OptimisticSpec{client, path, std::move(options), std::move(writer)});
}

void require_function(const OptimisticSpec& spec, const Optimistic::Function& function) {
  if (!function) throw Error(Errc::invalid_argument, running_atomically, spec.path.str(), "there is no function");
}

CallOptions limited(const OptimisticSpec& spec, CallOptions call) {
  if (!call.deadline) call.deadline = spec.client->default_deadline();
  return call;
}

Result<void> result_of_run(const OptimisticSpecPtr& spec, const Optimistic::Function& function,
                           const CallOptions& call) {
  try {
    OptimisticRun(spec, function, call).run();
    return {};
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(Errc::invalid_argument, running_atomically, spec->path.str(), error.what());
  } catch (...) {
    return Error(Errc::invalid_argument, running_atomically, spec->path.str(), "the function threw no std::exception");
  }
}

zk::Awaitable<Result<void>> nothing() { co_return Result<void>(); }

}  // namespace

// --- OptimisticView -------------------------------------------------------------------------------------------------

std::string OptimisticView::get(const Path& path) {
  const std::optional<std::string>& data = run_.data(path);
  if (!data) throw Error(Errc::no_node, running_atomically, path.str());
  return *data;
}
std::optional<std::string> OptimisticView::find(const Path& path) { return run_.data(path); }
bool OptimisticView::exists(const Path& path) { return run_.data(path).has_value(); }
std::vector<std::string> OptimisticView::children(const Path& path) { return run_.names(path); }
void OptimisticView::set(const Path& path, std::string_view data) { run_.set(path, data); }
void OptimisticView::create(const Path& path, std::string_view data) { run_.create(path, data); }
void OptimisticView::remove(const Path& path) { run_.remove(path); }
int OptimisticView::attempt() const noexcept { return run_.attempt(); }

// --- Optimistic -----------------------------------------------------------------------------------------------------

struct Optimistic::State {
  zkclient::Client client;  // Stays open for as long as it is used here.
  OptimisticSpecPtr spec;
};

Optimistic::Optimistic(zkclient::Client client, Path path, OptimisticOptions options) {
  OptimisticSpecPtr spec = make_spec(client.impl(), path, std::move(options));
  state_ = std::make_unique<State>(State{std::move(client), std::move(spec)});
}
Optimistic::~Optimistic() = default;
Optimistic::Optimistic(Optimistic&&) noexcept = default;
Optimistic& Optimistic::operator=(Optimistic&&) noexcept = default;

const Path& Optimistic::path() const noexcept { return state_->spec->path; }

void Optimistic::atomically(const Function& function, const CallOptions& call) {
  const OptimisticSpecPtr spec = state_->spec;
  require_function(*spec, function);
  OptimisticRun(spec, function, limited(*spec, call)).run();
}

// First to the callback executor, where the function and its reads may block.
void Optimistic::async_atomically(Function function, zkclient::Handler<void> handler, const CallOptions& call) {
  const OptimisticSpecPtr spec = state_->spec;
  require_function(*spec, function);
  zk::require_handler(handler, running_atomically, spec->path.str());
  const CallOptions limits = limited(*spec, call);
  auto begin = [spec, limits, function = std::move(function), handler = std::move(handler)](Result<void> may) mutable {
    handler(may ? result_of_run(spec, function, limits) : std::move(may));
  };
  spec->form().start(
      limits, [](zk::Call) { return nothing(); }, std::move(begin));
}

}  // namespace zkrecipes
