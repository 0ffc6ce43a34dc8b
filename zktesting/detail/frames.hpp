#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace zktesting::detail {

/// Finds the frames in a stream of ZooKeeper's protocol: four bytes of length, then that many
/// bytes. Looks at the first bytes of each frame only; the rest is skipped unseen.
class FrameScanner {
 public:
  /// The number at a frame's beginning; absent if it is too short for it.
  struct Head {
    bool first = false;  ///< The handshake: has neither xid nor type.
    std::optional<std::int32_t> xid;
    std::optional<std::int32_t> type;  ///< Of requests; meaningless in replies.
  };
  enum class Step {
    head,      ///< A frame begins at `position`; see `head`. `accept` skips it, else stay.
    need,      ///< More bytes are needed from `position` on.
    not_ours,  ///< These are not such frames.
  };

  /// Goes on in `bytes` from `position` until something is to be decided. Body bytes are skipped.
  Step next(std::string_view bytes, std::size_t& position);
  [[nodiscard]] const Head& head() const { return head_; }
  /// The frame that `next` has found may pass.
  void accept();

 private:
  bool first_ = true;
  std::size_t frame_size_ = 0;  ///< Of the frame found, with its length field.
  std::size_t skip_ = 0;        ///< Bytes of accepted frames that are still to come.
  Head head_;
};

}  // namespace zktesting::detail
