// One member of a replicated log: a process with a folder of its own. What it does, and what clients send to it:
// log/log_replica.hpp.
//   replicated_log FOLDER ID ADDRESS PORT [ADVERTISED_ADDRESS:PORT [SERVERS [SESSION_MS [SERVER_TICK_MS]]]]

#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <boost/asio.hpp>

#include <zkclient/client.hpp>

#include "log/connection.hpp"
#include "log/log.hpp"
#include "log/log_replica.hpp"

int main(int argc, char** argv) try {
  if (argc < 5) throw std::invalid_argument("usage: replicated_log FOLDER ID ADDRESS PORT ...");
  const auto given = [&](int i, std::string otherwise) { return i < argc ? argv[i] : std::move(otherwise); };
  const std::chrono::milliseconds session(std::stol(given(7, "10000"))), tick(std::stol(given(8, "2000")));
  const zkclient::Client client(given(6, "127.0.0.1:2181"), {.session_timeout = session, .server_tick = tick});
  logs::Log log(argv[1]);
  boost::asio::io_context io;
  logs::tcp::acceptor acceptor(io, logs::tcp::resolver(io).resolve(argv[3], argv[4])->endpoint());
  std::cout << "listening" << std::endl;
  logs::LogReplica replica(log, client, "/replicated_log", argv[2], given(5, fmt::format("{}:{}", argv[3], argv[4])));
  logs::serve_all(acceptor, [&](logs::Words& words, logs::Connection& peer) { return replica.answer(words, peer); });
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return EXIT_FAILURE;
}
