#pragma once

#include <iterator>
#include <stdexcept>
#include <string>

#include <boost/asio/ip/tcp.hpp>

#include "tests/support/testkit.hpp"

namespace monitoring {

struct Answer {
  int status = 0;
  std::string content_type;
  std::string body;
};

/// What an HTTP server at "address:port" answers.
inline Answer get(const std::string& server, const std::string& target) {
  boost::asio::ip::tcp::iostream stream;
  stream.expires_after(testkit::patience);
  const auto colon = server.rfind(':');
  stream.connect(server.substr(0, colon), server.substr(colon + 1));
  // A server of the newer version would send it in pieces.
  stream << "GET " << target << " HTTP/1.0\r\nHost: " << server << "\r\n\r\n" << std::flush;
  Answer answer;
  std::string word;
  stream >> word >> answer.status;
  std::getline(stream, word);
  for (std::string line; std::getline(stream, line) && line != "\r";) {
    const std::string name = "Content-Type: ";
    if (line.starts_with(name)) answer.content_type = line.substr(name.size(), line.find('\r') - name.size());
  }
  answer.body.assign(std::istreambuf_iterator<char>(stream), {});
  if (answer.status == 0) throw std::runtime_error(server + " does not answer: " + stream.error().message());
  return answer;
}

}  // namespace monitoring
