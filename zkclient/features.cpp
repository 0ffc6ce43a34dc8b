#include <zkclient/features.hpp>

#include <zookeeper/zookeeper_version.h>

namespace zkclient {

const Features& features() noexcept {
  static constexpr Features all{ZKCLIENT_HAS_SSL != 0, ZKCLIENT_HAS_SASL != 0, ZOO_VERSION};
  return all;
}

}  // namespace zkclient
