#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <zkclient/export.hpp>

#include <zkrecipes/configuration.hpp>

/// What the recipe writes into nodes and into the fallback file. Foreign text is refused, and never throws.
namespace zkrecipes::detail {

/// No publication comes so far. A record beyond it is foreign, and sums with it stay far from what an integer holds.
inline constexpr std::int64_t last_revision = 1'000'000'000'000'000'000;

/// The data of the node at the path.
struct ConfigurationRecord {
  std::int64_t revision = 0;
  std::uint64_t checksum = 0;  ///< Of all keys and values.
  std::int64_t time_ms = 0;
  std::string writer = {};  ///< Of this publication alone.
  std::string publisher = {};
  std::string note = {};

  friend bool operator==(const ConfigurationRecord&, const ConfigurationRecord&) = default;
};
ZKRECIPES_INTERNAL_API std::string encode(const ConfigurationRecord& record);
/// "": revision 0, nobody has published. nullopt: malformed.
ZKRECIPES_INTERNAL_API std::optional<ConfigurationRecord> decode_record(std::string_view text);

using KeyChanges = std::map<std::string, std::optional<std::string>>;

/// Differs whenever a key or a value does.
class ZKRECIPES_INTERNAL_API ConfigurationChecksum {
 public:
  /// In the order of the keys.
  void add(std::string_view key, std::string_view value) noexcept;
  std::uint64_t value() const noexcept { return state_; }

 private:
  void add(std::string_view text) noexcept;
  std::uint64_t state_ = 0xcbf29ce484222325U;
};
ZKRECIPES_INTERNAL_API std::uint64_t checksum_of(const ConfigurationValues::Map& values) noexcept;

/// The data of a node of the history: a revision, and what takes the next one back to it.
struct ConfigurationUndo {
  ConfigurationRecord record;
  KeyChanges replaced;

  friend bool operator==(const ConfigurationUndo&, const ConfigurationUndo&) = default;
};
ZKRECIPES_INTERNAL_API std::string encode(const ConfigurationUndo& undo);
ZKRECIPES_INTERNAL_API std::optional<ConfigurationUndo> decode_undo(std::string_view text);

/// The name of a node of the history. They are ordered as their revisions.
ZKRECIPES_INTERNAL_API std::string history_name(std::int64_t revision);
ZKRECIPES_INTERNAL_API std::optional<std::int64_t> revision_of_history(std::string_view name);

/// The data of a follower's report; its id is the node's name. nullopt: it is none.
/// `epoch`: the czxid of the path that the report is about; 0: not known.
ZKRECIPES_INTERNAL_API std::string encode(const ConfigurationReport& report, std::int64_t epoch = 0);
/// 0: the report does not say.
ZKRECIPES_INTERNAL_API std::int64_t epoch_of_report(std::string_view text);
ZKRECIPES_INTERNAL_API std::optional<ConfigurationReport> decode_report(std::string_view id, std::string_view text);

/// The text of a fallback file. `path`: the configuration's, so that a file of another one is not taken for it.
ZKRECIPES_INTERNAL_API std::string encode_file(std::string_view path, const ConfigurationValues& values);
ZKRECIPES_INTERNAL_API std::optional<ConfigurationValues> decode_file(std::string_view path, std::string_view text);

/// Of a key that can be published; else what is wrong.
ZKRECIPES_INTERNAL_API const char* key_defect(std::string_view key) noexcept;

}  // namespace zkrecipes::detail
