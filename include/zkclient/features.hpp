#pragma once

#include <string_view>

namespace zkclient {

/// What the ZooKeeper C client that this library was built with can do.
struct Features {
  bool tls = false;   ///< Encrypted connections: ClientOptions::tls.
  bool sasl = false;  ///< SASL authentication: ClientOptions::sasl.
  std::string_view c_client_version = {};
};

const Features& features() noexcept;

}  // namespace zkclient
