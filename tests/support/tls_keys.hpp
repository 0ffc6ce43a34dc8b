#pragma once

#include <filesystem>
#include <string>

#include <zkclient/client.hpp>
#include <zktesting/server.hpp>

namespace testkit {

/// A CA, and keys of a server and of a client that it signed, in a temporary folder. Made by the program openssl.
class TlsKeys {
 public:
  static constexpr const char* passphrase = "swordfish";

  TlsKeys();
  ~TlsKeys();
  TlsKeys(const TlsKeys&) = delete;
  TlsKeys& operator=(const TlsKeys&) = delete;

  std::string file(const std::string& name) const { return directory_ / name; }
  /// For a client: its own certificate, and the CA that signed the server's.
  zkclient::TlsOptions client() const;
  /// The same, with the key encrypted by `passphrase`.
  zkclient::TlsOptions client_with_passphrase() const;
  /// A server with a port for TLS, which asks its clients for certificates.
  zktesting::ServerOptions server() const;

 private:
  void run(const std::string& arguments) const;
  void sign(const std::string& name) const;

  std::filesystem::path directory_;
};

}  // namespace testkit
