#include "tools/guardian/connection.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#if GUARDIAN_HAS_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
#endif

namespace guardian {

#if GUARDIAN_HAS_TLS

namespace {

int give_passphrase(char* buffer, int size, int, void* passphrase) {
  const auto& text = *static_cast<const std::string*>(passphrase);
  if (text.size() > static_cast<std::size_t>(size)) return 0;
  std::memcpy(buffer, text.data(), text.size());
  return static_cast<int>(text.size());
}

}  // namespace

/// As the C client does it: both sides show a certificate; that of the server has to be signed by the CA.
class Connection::Encryption {
 public:
  Encryption(int socket, Tls tls)
      : tls_(std::move(tls)), context_(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free), ssl_(nullptr, &SSL_free) {
    if (!context_) return;
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_mode(context_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_default_passwd_cb(context_.get(), &give_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(context_.get(), &tls_.key_passphrase);
    const bool loaded = SSL_CTX_load_verify_locations(context_.get(), tls_.ca_file.c_str(), nullptr) == 1 &&
                        SSL_CTX_use_certificate_chain_file(context_.get(), tls_.certificate_file.c_str()) == 1 &&
                        SSL_CTX_use_PrivateKey_file(context_.get(), tls_.key_file.c_str(), SSL_FILETYPE_PEM) == 1;
    if (loaded) ssl_.reset(SSL_new(context_.get()));
    if (ssl_ && SSL_set_fd(ssl_.get(), socket) != 1) ssl_.reset();
  }
  Encryption(const Encryption&) = delete;
  Encryption& operator=(const Encryption&) = delete;
  ~Encryption() = default;

  /// What has to be waited for, of the socket: POLLIN, POLLOUT; 0: it is agreed; -1: it is not.
  int shake_hands() {
    if (!ssl_) return -1;
    ERR_clear_error();
    const int code = SSL_connect(ssl_.get());
    if (code == 1) return 0;
    wait_for(code);
    return awaited_ != 0 ? awaited_ : -1;
  }
  long send(std::string_view bytes) {
    ERR_clear_error();
    return result_of(SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())));
  }
  long receive(char* bytes, std::size_t size) {
    ERR_clear_error();
    return result_of(SSL_read(ssl_.get(), bytes, static_cast<int>(size)));
  }
  /// What the last call that returned 0 waits for.
  short awaited() const { return awaited_; }

 private:
  long result_of(int code) {
    if (code > 0) return code;
    wait_for(code);
    return awaited_ != 0 ? 0 : -1;
  }
  void wait_for(int code) {
    const int error = SSL_get_error(ssl_.get(), code);
    awaited_ = 0;
    if (error == SSL_ERROR_WANT_READ) awaited_ = POLLIN;
    if (error == SSL_ERROR_WANT_WRITE) awaited_ = POLLOUT;
  }

  Tls tls_;
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
  short awaited_ = 0;
};

#else

/// There is none without OpenSSL. Who asks for it has another build of the library: the session ends with its timeout.
class Connection::Encryption {
 public:
  Encryption(int, const Tls&) {}
  int shake_hands() { return -1; }
  long send(std::string_view) { return -1; }
  long receive(char*, std::size_t) { return -1; }
  short awaited() const { return 0; }
};

#endif

Connection::Connection(const addrinfo& address, const std::optional<Tls>& tls, Clock::time_point deadline)
    : socket_(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), deadline_(deadline) {
  good_ = connect(address);
  if (!good_ || !tls) return;
  encryption_ = std::make_unique<Encryption>(socket_, *tls);
  int awaited = encryption_->shake_hands();
  while (awaited > 0 && ready(static_cast<short>(awaited)))
    awaited = encryption_->shake_hands();
  good_ = awaited == 0;
}

Connection::~Connection() { ::close(socket_); }

bool Connection::connect(const addrinfo& address) {
  const bool begun = ::connect(socket_, address.ai_addr, address.ai_addrlen) == 0 || errno == EINPROGRESS;
  int error = 0;
  socklen_t size = sizeof error;
  return begun && ready(POLLOUT) && ::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

bool Connection::ready(short what) const {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
  pollfd poll{socket_, what, 0};
  return left > 0 && ::poll(&poll, 1, static_cast<int>(left)) == 1;
}

long Connection::send_some(std::string_view bytes) {
  if (encryption_) return encryption_->send(bytes);
  const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return count < 0 && errno == EAGAIN ? 0 : count;
}

bool Connection::send(std::string_view bytes) {
  while (!bytes.empty() && good_) {
    const long count = send_some(bytes);
    if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
    good_ = count > 0 || (count == 0 && ready(encryption_ ? encryption_->awaited() : static_cast<short>(POLLOUT)));
  }
  return good_;
}

long Connection::receive_some(char* bytes, std::size_t size) {
  if (encryption_) return encryption_->receive(bytes, size);
  const ssize_t count = ::recv(socket_, bytes, size, 0);
  if (count < 0 && errno == EAGAIN) return 0;
  return count > 0 ? count : -1;  // 0: the server has closed it.
}

std::string Connection::read(std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t have = 0;
  while (have < size && good_) {
    const long count = receive_some(bytes.data() + have, size - have);
    if (count > 0) have += static_cast<std::size_t>(count);
    good_ = count > 0 || (count == 0 && ready(encryption_ ? encryption_->awaited() : static_cast<short>(POLLIN)));
  }
  bytes.resize(have);
  return bytes;
}

std::optional<std::string> Connection::receive() {
  const std::string head = read(4);
  if (head.size() < 4) return std::nullopt;
  std::uint32_t size = 0;
  for (const char byte : head)
    size = size << 8 | static_cast<unsigned char>(byte);
  if (size > 4096) return std::nullopt;
  std::string body = read(size);
  if (body.size() < size) return std::nullopt;
  return body;
}

}  // namespace guardian
