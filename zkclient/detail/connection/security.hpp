#pragma once

#include <memory>
#include <string>

#include <zkclient/client.hpp>

namespace zkclient::detail {

/// The options as they are used later: with absolute paths. Throws Error: unsupported if the C client has no TLS,
/// invalid_argument for files that are missing or do not fit together. Reads the files.
TlsOptions checked(TlsOptions options);
/// Throws Error: unsupported if the C client has no SASL or the system has none of the mechanisms, invalid_argument.
void check(const SaslOptions& options);

/// zookeeper_init_ssl's argument, with the passphrase in it.
std::string tls_argument(const TlsOptions& options);

/// Why the last call into OpenSSL on this thread failed; "" if OpenSSL does not say.
struct TlsTrouble {
  std::string reason = {};
  bool permanent = false;  ///< Of the kind that an operator has to put right: a certificate that is refused, say.
};
TlsTrouble last_tls_trouble();

/// The answers to Cyrus SASL during a login. Must outlive the C client's handle that uses it.
class SaslLogin {
 public:
  explicit SaslLogin(const SaslOptions& options);
  ~SaslLogin();
  SaslLogin(const SaslLogin&) = delete;
  SaslLogin& operator=(const SaslLogin&) = delete;

  const SaslOptions& options() const noexcept { return options_; }
  /// An array of sasl_callback_t.
  const void* callbacks() const noexcept;

 private:
  struct Native;
  const SaslOptions options_;
  std::unique_ptr<Native> native_;
};

}  // namespace zkclient::detail
