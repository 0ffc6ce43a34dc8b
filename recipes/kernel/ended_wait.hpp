#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <zkrecipes/cache.hpp>

#include "recipes/kernel/words.hpp"

/// What the error of a wait says that ended without what it waited for: what that is, and what it saw last.
namespace zkrecipes::detail {

/// The detail of such an error.
std::string wait_story(std::string_view awaited, std::string_view seen);

/// "1 member", "2 members".
std::string counted(std::size_t count, std::string_view noun);

/// What a view holds, for a person.
std::string describe_view(const Snapshot& nodes, CacheState state, const std::optional<zkclient::Error>& problem);
template <typename View>
std::string describe_view(const View& view) {
  return describe_view(view.snapshot(), view.state(), view.problem());
}

/// The wait has ended by the caller, the time, or the end of what it waited in; else `error` speaks for itself.
bool is_ended_wait(const zkclient::Error& error) noexcept;

/// The same error in the words of the recipe that waited through another one.
zkclient::Error retold(const zk::ClientCore& client, const zkclient::Error& error, const char* operation,
                       const std::string& path, std::string_view story);

/// How a recipe that waits through a cache says why a wait ended: `story` makes the words when it has.
template <typename Story>
class RetoldWait {
 public:
  RetoldWait(std::shared_ptr<zk::ClientCore> client, const char* operation, std::string path, Story story)
      : client_(std::move(client)), operation_(operation), path_(std::move(path)), story_(std::move(story)) {}

  zkclient::Error operator()(const zkclient::Error& error) const {
    return is_ended_wait(error) ? retold(*client_, error, operation_, path_, story_()) : error;
  }
  /// The blocking form: what `wait` returns, or its error retold.
  template <typename Wait>
  auto around(Wait wait) const {
    try {
      return wait();
    } catch (const zkclient::Error& error) {
      if (!is_ended_wait(error)) throw;
      throw(*this)(error);
    }
  }

 private:
  std::shared_ptr<zk::ClientCore> client_;
  const char* operation_;
  std::string path_;
  Story story_;
};

}  // namespace zkrecipes::detail
