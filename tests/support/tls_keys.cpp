#include "tests/support/tls_keys.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace testkit {
namespace {

constexpr const char* new_key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TlsKeys::TlsKeys() {
  std::string pattern = std::filesystem::temp_directory_path() / "zkrecipes-keys-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  directory_ = pattern;
  for (const char* ca : {"ca", "other-ca"})
    run(std::string("req -x509 ") + new_key + " -days 2 -subj /CN=" + ca + " -keyout " + ca + ".key -out " + ca +
        ".pem");
  sign("server");
  sign("client");
  run(std::string("pkcs8 -topk8 -in client.key -out encrypted.key -passout pass:") + passphrase);
  std::ofstream(directory_ / "server-store.pem")
      << text_of(directory_ / "server.key") << text_of(directory_ / "server.pem");
}

TlsKeys::~TlsKeys() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void TlsKeys::run(const std::string& arguments) const {
  const std::string command = "cd '" + directory_.string() + "' && openssl " + arguments + " >openssl.log 2>&1";
  if (std::system(command.c_str()) != 0) {  // NOLINT(cert-env33-c,concurrency-mt-unsafe)
    throw std::runtime_error("openssl " + arguments + ": " + text_of(directory_ / "openssl.log"));
  }
}

void TlsKeys::sign(const std::string& name) const {
  run(std::string("req ") + new_key + " -subj /CN=" + name + " -keyout " + name + ".key -out " + name + ".csr");
  run("x509 -req -days 2 -CA ca.pem -CAkey ca.key -CAcreateserial -in " + name + ".csr -out " + name + ".pem");
}

zkclient::TlsOptions TlsKeys::client() const {
  return {.ca_file = file("ca.pem"), .certificate_file = file("client.pem"), .key_file = file("client.key")};
}

zkclient::TlsOptions TlsKeys::client_with_passphrase() const {
  zkclient::TlsOptions options = client();
  options.key_file = file("encrypted.key");
  options.key_passphrase = passphrase;
  return options;
}

zktesting::ServerOptions TlsKeys::server() const {
  zktesting::ServerOptions options;
  options.secure_port = true;
  options.config = {{"ssl.keyStore.location", file("server-store.pem")},
                    {"ssl.keyStore.type", "PEM"},
                    {"ssl.trustStore.location", file("ca.pem")},
                    {"ssl.trustStore.type", "PEM"}};
  return options;
}

}  // namespace testkit
