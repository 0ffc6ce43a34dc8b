#include "storm/workloads/sessions.hpp"

#include <thread>

namespace storm {

void expect_nothing_below(Place& place, const std::string& path) {
  zkclient::Client client(place.servers(), {.session_timeout = std::chrono::seconds(10)});
  client.connect(within(std::chrono::seconds(60)));
  std::string left;
  for (int attempt = 0; attempt < 100; ++attempt) {
    left.clear();
    try {
      for (const std::string& child : client.children(path).names)
        left += " " + child;
    } catch (const zkclient::Error& error) {
      if (error.code() != zkclient::Errc::no_node) throw;
    }
    if (left.empty()) return;
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  place.note("left behind", 0, 0, path + ":" + left);
}

}  // namespace storm
