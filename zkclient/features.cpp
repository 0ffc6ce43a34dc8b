#include <zkclient/features.hpp>

#include <zookeeper/zookeeper_version.h>

namespace zkclient {

const Features& features() noexcept {
  static constexpr Features all{false, false, ZOO_VERSION};
  return all;
}

}  // namespace zkclient
