#pragma once

#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <zkclient/error.hpp>
#include <zkclient/result.hpp>

#include <zkrecipes/cache.hpp>
#include <zkrecipes/claim.hpp>
#include <zkrecipes/configuration.hpp>
#include <zkrecipes/service_instance.hpp>
#include <zkrecipes/shared_value.hpp>

/// Values of a program's own types in place of bytes. Opt-in: no other header includes this one, and all of it is templates.
/// How a T becomes bytes is said once, by a Codec<T>; the functions and classes below use it for what the recipes show and
/// write. All forms of a recipe's calls stay what they are:
///
///   queue.push(encode(job));                            async_push(queue, encode(job), use_awaitable);
///   Claim claim = queue.claim();                        const Job job = decode<Job>(claim);
///
/// Bytes that are no T are an error of the kind precondition: foreign_node, which says what the codec said, and names the
/// node, or the path that the call was given.
/// Where a recipe has problem(), it is there. No exception of a codec gets into the library's threads.
namespace zkrecipes {

/// How a T becomes bytes, and bytes become a T: to be specialised, with two static functions that may throw any exception.
///
///   template <>
///   struct zkrecipes::Codec<Job> {
///     static std::string encode(const Job& job);
///     static Job decode(std::string_view bytes);
///   };
template <typename T>
struct Codec;

/// Text and bytes as they are.
template <>
struct Codec<std::string> {
  static std::string encode(const std::string& text) { return text; }
  static std::string decode(std::string_view bytes) { return std::string(bytes); }
};

/// A T with a Codec.
template <typename T>
concept Coded = requires(const T& value, std::string_view bytes) {
  { Codec<T>::encode(value) } -> std::convertible_to<std::string>;
  { Codec<T>::decode(bytes) } -> std::convertible_to<T>;
};

namespace detail {

/// What `work` returns; an Error of `code` with the text of what it throws.
template <typename Work>
auto coded(zkclient::Errc code, const char* operation, std::string_view path, Work work)
    -> zkclient::Result<decltype(work())> {
  try {
    return work();
  } catch (const std::exception& error) {
    return zkclient::Error(code, operation, path, error.what(), path);
  } catch (...) {
    return zkclient::Error(code, operation, path, "the codec threw no std::exception", path);
  }
}

}  // namespace detail

/// Errors: invalid_argument, with what the codec threw.
template <Coded T>
std::string encode(const T& value) {
  const auto work = [&] { return std::string(Codec<T>::encode(value)); };
  return detail::coded(zkclient::Errc::invalid_argument, "encode", "", work).value();
}

/// Never throws what the codec throws: the error is foreign_node, and names `path`.
template <Coded T>
zkclient::Result<T> try_decode(std::string_view bytes, std::string_view path = {}) {
  const auto work = [&] { return T(Codec<T>::decode(bytes)); };
  return detail::coded(zkclient::Errc::foreign_node, "decode", path, work);
}

/// Errors: foreign_node.
template <Coded T>
T decode(std::string_view bytes, std::string_view path = {}) {
  return std::move(try_decode<T>(bytes, path)).value();
}

// --- Queues ---------------------------------------------------------------------------------------------------------

/// The item of a claim; of a node with several items (Claim::items()), the first one. Errors: foreign_node, which names
/// the item's node: reject() the claim, or it comes back.
template <Coded T>
T decode(const Claim& claim) {
  return decode<T>(claim.data(), claim.node());
}

/// All items of a claim, which are several if Curator has put them into one node. Errors: as decode().
template <Coded T>
std::vector<T> decode_items(const Claim& claim) {
  std::vector<T> items;
  for (const std::string& item : claim.items())
    items.push_back(decode<T>(item, claim.node()));
  return items;
}

// --- Service discovery ----------------------------------------------------------------------------------------------

/// The payload of an instance, which is JSON: encode() writes it. Errors: foreign_node, which names service and id.
template <Coded T>
T decode(const ServiceInstance& instance) {
  return decode<T>(instance.payload, instance.name + "/" + instance.id);
}

// --- SharedValue ----------------------------------------------------------------------------------------------------

/// nullopt: the node does not exist. Errors: foreign_node.
template <Coded T>
std::optional<T> decode(const VersionedValue& value, std::string_view path = {}) {
  if (!value.exists) return std::nullopt;
  return decode<T>(value.data, path);
}

/// For SharedValue::update(), from a function that gets std::optional<T> and returns it. What is no T ends the update
/// with foreign_node, which names `path`, and nothing is written.
template <Coded T, typename Function>
SharedValue::Function updating(Function function, std::string path = {}) {
  return [function = std::move(function),
          path = std::move(path)](const VersionedValue& now) -> std::optional<std::string> {
    const std::optional<T> next = function(decode<T>(now, path));
    if (!next) return std::nullopt;
    return encode(*next);
  };
}

/// For SharedValue::on_change(), from a function that gets Result<std::optional<T>>: the value, or why it is none, which
/// names `path`. What the function returns is dropped.
template <Coded T, typename Function>
SharedValue::Listener listening(Function function, std::string path = {}) {
  return [function = std::move(function), path = std::move(path)](const VersionedValue& now) mutable -> void {
    zkclient::Result<std::optional<T>> told = std::optional<T>();
    if (now.exists) {
      zkclient::Result<T> value = try_decode<T>(now.data, path);
      told = value ? zkclient::Result<std::optional<T>>(std::optional<T>(std::move(*value)))
                   : zkclient::Result<std::optional<T>>(value.error());
    }
    (void)function(std::move(told));
  };
}

// --- Configuration --------------------------------------------------------------------------------------------------

/// For a TypedConfiguration<T>: the value of `key`. A configuration whose value is no T, or that lacks the key, is not
/// taken into force; see Configuration::on_rejected().
template <Coded T>
typename TypedConfiguration<T>::Parse parsing(std::string key) {
  return [key = std::move(key)](const ConfigurationValues& values) { return decode<T>(values.at(key), key); };
}

// --- Caches ---------------------------------------------------------------------------------------------------------

/// A NodeCache, ChildrenCache or TreeCache whose nodes hold Ts:
///
///   TypedCache<Limits, NodeCache> limits(client, "/config/limits");
///   std::shared_ptr<const Limits> now = limits.value();
///
/// Each node's data is decoded once, by the first caller that asks after it was read; others wait for that one, so a codec
/// must not ask its own cache. Nodes without data (CacheOptions::data, max_bytes; the directory of a ChildrenCache) have
/// no value, and no error.
///
/// Thread safety: all members. A moved-from object may only be destroyed or assigned to.
template <Coded T, std::derived_from<Cache> Kind>
class TypedCache : public Kind {
 public:
  using Value = std::shared_ptr<const T>;  ///< Shared with all that hold it.

  using Kind::Kind;

  /// Of the node at `path`, absolute, or at the cache's own; null if there is none, or its data is no T. No round trip.
  Value value(std::string_view path = {}) const {
    const std::lock_guard lock(*mutex_);
    refresh_values();
    const auto found = nodes_.find(path.empty() ? std::string_view(this->path().str()) : path);
    return found == nodes_.end() ? nullptr : found->second.value;
  }
  /// All nodes that hold a T, by path. No round trip.
  std::map<std::string, Value> values() const {
    const std::lock_guard lock(*mutex_);
    refresh_values();
    std::map<std::string, Value> all;
    for (const auto& [path, node] : nodes_) {
      if (node.value) all.emplace(path, node.value);
    }
    return all;
  }
  /// As Cache::problem(); if that is nullopt, foreign_node for the first node whose data is no T, by path.
  std::optional<zkclient::Error> problem() const {
    if (auto unreadable = Kind::problem()) return unreadable;
    const std::lock_guard lock(*mutex_);
    refresh_values();
    for (const auto& [path, node] : nodes_) {
      if (node.error) return node.error;
    }
    return std::nullopt;
  }

 private:
  struct Decoded {
    zkclient::Stat stat = {};
    Value value = {};
    std::optional<zkclient::Error> error = {};
  };
  using Nodes = std::map<std::string, Decoded, std::less<>>;

  /// Zxids alone do not tell: those of an ensemble that has lost its data may come again.
  static bool same_data(const zkclient::Stat& one, const zkclient::Stat& other) {
    return one.czxid == other.czxid && one.mzxid == other.mzxid && one.ctime_ms == other.ctime_ms &&
           one.mtime_ms == other.mtime_ms && one.version == other.version && one.data_length == other.data_length;
  }

  static Decoded decoded(const std::string& path, const CachedNode& node) {
    Decoded made{node.stat};
    zkclient::Result<T> value = try_decode<T>(node.data, path);
    if (value) {
      made.value = std::make_shared<const T>(std::move(*value));
    } else {
      made.error = value.error();
    }
    return made;
  }

  void refresh_values() const {
    const Snapshot now = this->snapshot();
    if (now.revision() <= revision_) return;
    Nodes nodes;
    now.for_each([&](const std::string& path, const CachedNode& node) {
      if (!node.has_data) return;
      const auto before = nodes_.find(path);
      const bool same = before != nodes_.end() && same_data(before->second.stat, node.stat);
      nodes.emplace(path, same ? before->second : decoded(path, node));
    });
    nodes_ = std::move(nodes);
    revision_ = now.revision();
  }

  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();  // So that the object may be moved.
  mutable std::uint64_t revision_ = 0;
  mutable Nodes nodes_;
};

}  // namespace zkrecipes
