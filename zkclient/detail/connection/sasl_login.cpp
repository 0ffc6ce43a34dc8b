// The options of SASL.

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <sstream>

#include "zkclient/detail/connection/security.hpp"

#if ZKCLIENT_HAS_SASL
#include <sasl/sasl.h>
#endif

namespace zkclient::detail {

#if ZKCLIENT_HAS_SASL
namespace {

using AnyCallback = int (*)();

int give_realm(void* context, int, const char** offered, const char** result) {
  const auto& options = *static_cast<const SaslOptions*>(context);
  const bool chosen = !options.realm.empty() || offered == nullptr || offered[0] == nullptr;
  *result = chosen ? options.realm.c_str() : offered[0];
  return SASL_OK;
}

int give_user(void* context, int id, const char** result, unsigned* length) {
  const auto& options = *static_cast<const SaslOptions*>(context);
  // The name to act for is left empty: the one that logs in.
  const char* const text = id == SASL_CB_AUTHNAME ? options.user.c_str() : "";
  *result = text;
  if (length != nullptr) *length = static_cast<unsigned>(std::strlen(text));
  return SASL_OK;
}

int give_password(sasl_conn_t*, void* context, int, sasl_secret_t** result) {
  *result = static_cast<sasl_secret_t*>(context);
  return SASL_OK;
}

// By default it would write to the system's log.
int keep_silent(void*, int, const char*) { return SASL_OK; }

template <typename Function>
AnyCallback any(Function function) {
  return reinterpret_cast<AnyCallback>(reinterpret_cast<void*>(function));
}

sasl_secret_t* make_secret(const std::string& password) {
  auto* const secret = static_cast<sasl_secret_t*>(std::calloc(1, sizeof(sasl_secret_t) + password.size()));
  if (secret == nullptr) throw std::bad_alloc();
  secret->len = password.size();
  std::memcpy(secret->data, password.data(), password.size());
  return secret;
}

void initialize_sasl() {
  static std::once_flag once;
  static int code = SASL_FAIL;
  std::call_once(once, [] { code = sasl_client_init(nullptr); });
  if (code != SASL_OK) {
    throw Error(Errc::system_error, "client", "", std::string("Cyrus SASL: ") + sasl_errstring(code, nullptr, nullptr));
  }
}

bool is_installed(const std::string& mechanism) {
  const char** known = sasl_global_listmech();
  for (; known != nullptr && *known != nullptr; ++known) {
    if (mechanism == *known) return true;
  }
  return false;
}

}  // namespace

struct SaslLogin::Native {
  explicit Native(const SaslOptions& options) : secret(make_secret(options.password), &std::free) {
    auto* const context = const_cast<SaslOptions*>(&options);
    callbacks[0] = {SASL_CB_GETREALM, any(&give_realm), context};
    callbacks[1] = {SASL_CB_USER, any(&give_user), context};
    callbacks[2] = {SASL_CB_AUTHNAME, any(&give_user), context};
    callbacks[3] = {SASL_CB_PASS, any(&give_password), secret.get()};
    callbacks[4] = {SASL_CB_LOG, any(&keep_silent), nullptr};
    callbacks[5] = {SASL_CB_LIST_END, nullptr, nullptr};
  }
  std::unique_ptr<sasl_secret_t, void (*)(void*)> secret;
  sasl_callback_t callbacks[6];
};

SaslLogin::SaslLogin(const SaslOptions& options) : options_(options), native_(std::make_unique<Native>(options_)) {
  initialize_sasl();
}

const void* SaslLogin::callbacks() const noexcept { return native_->callbacks; }

void check(const SaslOptions& options) {
  const auto refuse = [](const char* what) {
    throw Error(Errc::invalid_argument, "client", "", std::string("SaslOptions::") + what);
  };
  for (const std::string* text :
       {&options.mechanisms, &options.user, &options.password, &options.realm, &options.service, &options.host}) {
    if (text->find('\0') != std::string::npos) refuse("no text may contain a zero byte");
  }
  if (options.service.empty()) refuse("service is missing");
  initialize_sasl();
  std::istringstream words(options.mechanisms);
  std::string mechanism;
  bool any_named = false;
  while (words >> mechanism) {
    any_named = true;
    if (is_installed(mechanism)) {
      if (options.user.empty() && mechanism != "GSSAPI") refuse("user is missing");
      return;
    }
  }
  if (!any_named) refuse("mechanisms is missing");
  throw Error(Errc::unsupported, "client", "",
              "SaslOptions::mechanisms: Cyrus SASL has no module for " + options.mechanisms +
                  " (Debian: libsasl2-modules, libsasl2-modules-gssapi-mit)");
}
#else
struct SaslLogin::Native {};

SaslLogin::SaslLogin(const SaslOptions& options) : options_(options) {}

const void* SaslLogin::callbacks() const noexcept { return nullptr; }

void check(const SaslOptions&) { throw Error(Errc::unsupported, "client", "", "ClientOptions::sasl"); }
#endif

SaslLogin::~SaslLogin() = default;

}  // namespace zkclient::detail
