#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What the owner of a guardian tells it. recipes/elections/guardian.cpp writes it, and `zkr`, which alone has processes
/// to be killed.
namespace guardian {

/// Of the environment: the words of all runs of `zkr` that a process is part of, with a space between them.
inline constexpr std::string_view mark_variable = "ZKR_IDS=";

struct Session {
  std::int64_t id = 0;
  std::int32_t timeout_ms = 0;
  std::string password;
};

/// The files and the passphrase of zkclient::TlsOptions.
struct Tls {
  std::string ca_file;
  std::string certificate_file;
  std::string key_file;
  std::string key_passphrase;
};

struct Server {
  std::string port;
  std::string host;
  friend bool operator==(const Server&, const Server&) = default;
};

struct Orders {
  std::vector<Server> servers;
  std::optional<Session> session;
  std::optional<Tls> tls;  // Nothing: connections are not encrypted.
  bool farewell = false;
  int keeper = 0;           // Of `zkr`. When it is gone, the front is continued if it is stopped. 0: none.
  int front = 0;            // Of `zkr`. 0: none.
  std::string cgroup;       // The folder of a control group. Empty: none.
  std::string mark;         // "NAME=word": what has the word in that variable is to be killed. Empty: nothing is.
  std::uint64_t limit = 0;  // What has that limit of file locks is to be killed as well. 0: nothing is.
};

inline std::string from_hexadecimal(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes += static_cast<char>(std::strtoul(text.substr(i, 2).c_str(), nullptr, 16));
  return bytes;
}

/// One line of the owner's; what it does not know it ignores.
inline void obey(const std::string& line, Orders& orders) {
  std::istringstream words(line);
  std::string verb;
  words >> verb;
  if (verb == "server") {
    Server server;
    words >> server.port >> server.host;
    if (std::find(orders.servers.begin(), orders.servers.end(), server) == orders.servers.end())
      orders.servers.push_back(std::move(server));  // An owner that connects again names them again.
  } else if (verb == "session") {
    Session session;
    std::string password;
    words >> session.id >> session.timeout_ms >> password;
    session.password = from_hexadecimal(password);
    orders.session = std::move(session);
  } else if (verb == "tls") {
    Tls tls;
    for (std::string* part : {&tls.ca_file, &tls.certificate_file, &tls.key_file, &tls.key_passphrase}) {
      std::string digits;
      words >> digits;
      *part = from_hexadecimal(digits);
    }
    orders.tls = std::move(tls);
  } else if (verb == "cgroup" || verb == "mark") {
    std::string text;
    std::getline(words >> std::ws, text);
    (verb == "mark" ? orders.mark : orders.cgroup) = text;
  } else if (verb == "limit") {
    words >> orders.limit;
  } else if (verb == "keeper" || verb == "front") {
    words >> (verb == "keeper" ? orders.keeper : orders.front);
  } else if (verb == "none") {
    orders.session.reset();
  } else if (verb == "farewell") {
    orders.farewell = true;
  }
}

}  // namespace guardian
