// The options of TLS, and why it fails.

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include <fmt/format.h>

#include "zkclient/detail/connection/security.hpp"

#if ZKCLIENT_HAS_SSL
#include <openssl/err.h>
#include <openssl/ssl.h>
#endif

namespace zkclient::detail {
namespace {

// The C client takes all four in one argument, separated by commas.
constexpr const char* no_comma = "must not contain a comma, which the C client cannot take";

[[maybe_unused]] [[noreturn]] void refuse(const char* option, std::string_view what) {
  throw Error(Errc::invalid_argument, "client", "", fmt::format("TlsOptions::{} {}", option, what));
}

[[maybe_unused]] void check_file(const char* option, std::string& file) {
  if (file.empty()) refuse(option, "is missing: the C client needs a CA, a certificate of its own and the key of that");
  if (file.find('\0') != std::string::npos) refuse(option, "contains a zero byte");
  file = std::filesystem::absolute(file).string();
  if (file.find(',') != std::string::npos) refuse(option, no_comma);
  std::ifstream in(file);
  char first = 0;
  if (!in.get(first))
    refuse(option, fmt::format("cannot be read: {}: {}", file, errno != 0 ? std::strerror(errno) : "empty"));
}

}  // namespace

#if ZKCLIENT_HAS_SSL
namespace {

int give_passphrase(char* buffer, int size, int, void* passphrase) {
  const auto& text = *static_cast<const std::string*>(passphrase);
  if (text.size() > static_cast<std::size_t>(size)) return 0;
  std::memcpy(buffer, text.data(), text.size());
  return static_cast<int>(text.size());
}

// Loads the files as the C client will, at each connection, when no caller is left to tell.
void check_contents(const TlsOptions& options) {
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  if (context == nullptr) throw Error(Errc::system_error, "client", "", "OpenSSL has no TLS context to give");
  const auto require = [](int code, const char* option, const std::string& file) {
    if (code != 1) refuse(option, fmt::format("cannot be used: {}: {}", file, last_tls_trouble().reason));
  };
  SSL_CTX_set_default_passwd_cb(context.get(), &give_passphrase);
  SSL_CTX_set_default_passwd_cb_userdata(context.get(), const_cast<std::string*>(&options.key_passphrase));
  require(SSL_CTX_load_verify_locations(context.get(), options.ca_file.c_str(), nullptr), "ca_file", options.ca_file);
  require(SSL_CTX_use_certificate_chain_file(context.get(), options.certificate_file.c_str()), "certificate_file",
          options.certificate_file);
  require(SSL_CTX_use_PrivateKey_file(context.get(), options.key_file.c_str(), SSL_FILETYPE_PEM), "key_file",
          options.key_file);
  require(SSL_CTX_check_private_key(context.get()), "key_file", options.key_file);
}

}  // namespace

TlsOptions checked(TlsOptions options) {
  check_file("ca_file", options.ca_file);
  check_file("certificate_file", options.certificate_file);
  check_file("key_file", options.key_file);
  if (options.key_passphrase.find(',') != std::string::npos) refuse("key_passphrase", no_comma);
  if (options.key_passphrase.find('\0') != std::string::npos) refuse("key_passphrase", "contains a zero byte");
  ERR_set_mark();
  try {
    check_contents(options);
  } catch (...) {
    ERR_pop_to_mark();
    throw;
  }
  ERR_pop_to_mark();
  return options;
}

TlsTrouble last_tls_trouble() {
  const unsigned long code = ERR_peek_last_error();
  if (code == 0) return {};
  const char* reason = ERR_reason_error_string(code);
  bool permanent = ERR_GET_LIB(code) == ERR_LIB_SSL;
#ifdef SSL_R_UNEXPECTED_EOF_WHILE_READING
  if (permanent && ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING) permanent = false;
#endif
  return {reason != nullptr ? reason : fmt::format("OpenSSL error {:x}", code), permanent};
}
#else
TlsOptions checked(TlsOptions) { throw Error(Errc::unsupported, "client", "", "ClientOptions::tls"); }

TlsTrouble last_tls_trouble() { return {}; }
#endif

// With a passphrase in any case: without one the C client would ask for it on the terminal.
std::string tls_argument(const TlsOptions& options) {
  return fmt::format("{},{},{},{}", options.ca_file, options.certificate_file, options.key_file,
                     options.key_passphrase.empty() ? "none" : options.key_passphrase);
}

}  // namespace zkclient::detail
