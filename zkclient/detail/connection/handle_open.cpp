// The C client's ways to begin: plain, with TLS, with SASL.

#include "zkclient/detail/connection/handle.hpp"

#include <zookeeper/zookeeper.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "zkclient/detail/connection/security.hpp"
#include "zkclient/detail/log.hpp"

namespace zkclient::detail {
namespace {

thread_local std::vector<std::string>* collector = nullptr;

void take_log_line(const char* line) {
  if (collector != nullptr) {
    collector->emplace_back(line);
  } else {
    log_library_line(line);
  }
}

}  // namespace

Handle::LineCollector::LineCollector(std::vector<std::string>& lines) : former(std::exchange(collector, &lines)) {}
Handle::LineCollector::~LineCollector() { collector = former; }

void Handle::initialize_library() { set_library_log_level(log_level()); }

// Its errors are attempts to connect that failed, from which we learn why; they are shown at `info`, as its warnings
// are. Its debugging messages stay off: some are about what it has just freed.
void Handle::set_library_log_level(LogLevel level) noexcept {
  int native = ZOO_LOG_LEVEL_ERROR;
  if (level == LogLevel::info) native = ZOO_LOG_LEVEL_WARN;
  if (level == LogLevel::debug) native = ZOO_LOG_LEVEL_INFO;
  zoo_set_debug_level(static_cast<ZooLogLevel>(native));
}

void Handle::open(const HandleOptions& options) {
  clientid_t identity{};
  identity.client_id = options.resume.id;
  std::memcpy(identity.passwd, options.resume.password.data(),
              std::min(options.resume.password.size(), sizeof identity.passwd));
  const clientid_t* const resumed = options.resume.id != 0 ? &identity : nullptr;
  const char* const addresses = options.addresses.c_str();
  const int timeout = static_cast<int>(options.timeout.count());
  const int flags = ZOO_NO_LOG_CLIENTENV;
  tls_ = options.tls != nullptr;
  pace_ = options.pace;
  pace_->set_servers(1 + static_cast<std::size_t>(std::count(options.addresses.begin(), options.addresses.end(), ',')));
  repeated_ = options.repeated;
  if (options.sasl != nullptr) sasl_ = std::make_shared<SaslLogin>(*options.sasl);
#if ZKCLIENT_HAS_SSL
  if (tls_) {
    // OpenSSL keeps its errors by thread, and takes those of a handler for its own.
    events_.stay_on_thread();
    // It takes no log callback: until it has one, its messages would go to standard error.
    zoo_set_debug_level(static_cast<ZooLogLevel>(0));
    zh_ = zookeeper_init_ssl(addresses, tls_argument(*options.tls).c_str(), &Handle::watcher, timeout, resumed, this,
                             flags);
    initialize_library();
    if (zh_ != nullptr) zoo_set_log_callback(zh_, &take_log_line);
  }
#endif
#if ZKCLIENT_HAS_SASL
  if (sasl_ != nullptr) {
    const SaslOptions& login = sasl_->options();
    zoo_sasl_params_t parameters{login.service.c_str(), login.host.empty() ? nullptr : login.host.c_str(),
                                 login.mechanisms.c_str(), static_cast<const sasl_callback_t*>(sasl_->callbacks())};
    zh_ = zookeeper_init_sasl(addresses, &Handle::watcher, timeout, resumed, this, flags, &take_log_line, &parameters);
  }
#endif
  if (!tls_ && sasl_ == nullptr) {
    zh_ = zookeeper_init2(addresses, &Handle::watcher, timeout, resumed, this, flags, &take_log_line);
  }
  if (zh_ == nullptr) throw Error(Errc::system_error, "connect", "", std::strerror(errno));
  zoo_set_servers_resolution_delay(zh_, -1);  // The addresses are numeric; never look them up again.
  phase_ = Phase::open;
  schedule_drive();
}

}  // namespace zkclient::detail
