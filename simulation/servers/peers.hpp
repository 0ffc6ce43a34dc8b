#pragma once

#include <functional>

#include "simulation/network/network.hpp"

namespace zktesting::simulated {

class Server;

/// The cables between the servers: what goes from one to another arrives in its order, through the queue.
class Peers {
 public:
  using Message = std::function<void(Server&)>;

  virtual ~Peers() = default;
  /// `message` runs at the other server if its process lives, and otherwise `refused`, which stands for what that
  /// machine's kernel does.
  virtual void send(Host from, Host to, Message message, Message refused = {}) = 0;
};

}  // namespace zktesting::simulated
