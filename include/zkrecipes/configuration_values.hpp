#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/export.hpp>

/// What a configuration consists of, and what is told of it. The recipe is in configuration.hpp.
namespace zkrecipes {

/// The value of one key.
struct ConfigurationValue {
  std::string text;       ///< As it was published, or written by hand.
  std::int64_t zxid = 0;  ///< Of the write that made it; 0: it comes from a file.
  bool edited = false;    ///< By hand, after the last publication.

  friend bool operator==(const ConfigurationValue&, const ConfigurationValue&) = default;
};

/// A configuration, whole: all keys of one publication, and what operators have changed since. Immutable, and shared by
/// all that hold it.
struct ZKRECIPES_API ConfigurationValues {
  using Map = std::map<std::string, ConfigurationValue, std::less<>>;  ///< Values by their keys.

  std::int64_t revision = 0;   ///< Counts the publications. 0: all was written by hand.
  std::string publisher = {};  ///< Host, process and id of who published.
  std::string note = {};       ///< The publisher's.
  std::chrono::sys_time<std::chrono::milliseconds> published = {};  ///< By the publisher's clock.
  Map values = {};                                                  ///< By key: "limits/connections".
  bool edited = false;  ///< Not what was published: operators have added, changed or removed keys by hand.
  std::shared_ptr<const void> parsed = {};  ///< What TypedConfiguration made of it.

  /// Null: there is no such key. Good for as long as this object.
  const std::string* find(std::string_view key) const noexcept;
  /// Throws zkclient::Error (no_node) if there is no such key.
  const std::string& at(std::string_view key) const;
};
/// Shared by all that hold it.
using ConfigurationPtr = std::shared_ptr<const ConfigurationValues>;

/// The difference that one key makes.
struct ConfigurationChange {
  std::string key;                         ///< Whose value changed.
  std::optional<std::string> before = {};  ///< Nothing: the key was added.
  std::optional<std::string> after = {};   ///< Nothing: the key was removed.

  friend bool operator==(const ConfigurationChange&, const ConfigurationChange&) = default;
};

/// A configuration that was read, and is not in force.
struct ConfigurationRejection {
  std::int64_t revision = 0;     ///< Its number, as ConfigurationValues has it.
  std::string why;               ///< What the validator or the parser threw.
  ConfigurationPtr values = {};  ///< As it was read.
};

/// Where the configuration in force comes from.
enum class ConfigurationOrigin {
  none,        ///< There is none yet.
  file,        ///< From the fallback file: this object has accepted nothing else so far.
  last_known,  ///< From the ensemble, but it need not be the newest: disconnected, catching up, or the newest was refused.
  live,        ///< What the ensemble has, as far as this client has been told.
};

ZKRECIPES_API const char* to_string(ConfigurationOrigin origin) noexcept;

/// What a publication changes.
struct ConfigurationUpdate {
  std::map<std::string, std::optional<std::string>> values = {};  ///< By key; nothing: the key is removed.
  std::string note = {};  ///< For operators: why. Control characters become spaces.
  /// Also keys that were edited by hand, and that current() of this object does not show as they are.
  bool overwrite_edits = false;
};

/// A publication that can be gone back to.
struct ConfigurationRevision {
  std::int64_t revision = 0;                                        ///< Its number, as ConfigurationValues has it.
  std::string publisher = {};                                       ///< Host, process and id of who published it.
  std::string note = {};                                            ///< The publisher's.
  std::chrono::sys_time<std::chrono::milliseconds> published = {};  ///< By the publisher's clock.
  std::vector<std::string> replaced = {};                           ///< Keys that the next publication changed.
};

/// What a follower says of itself (ConfigurationOptions::report).
struct ConfigurationReport {
  std::string id;  ///< ConfigurationOptions::id.
  /// The revision in force there. Nothing: none that it has read from the ensemble.
  std::optional<std::int64_t> applied = {};
  /// The newest revision that it has read, if that is not in force there.
  std::optional<std::int64_t> refused = {};
  std::string why = {};  ///< What its validator or its parser threw: one line, cut off after 500 bytes.

  friend bool operator==(const ConfigurationReport&, const ConfigurationReport&) = default;
};

/// How far a revision has come among the followers that were asked for, each of which is in one of the lists.
struct ZKRECIPES_API ConfigurationRollOut {
  std::vector<ConfigurationReport> applied = {};  ///< The revision, or a later one, is in force there.
  std::vector<ConfigurationReport> refused =
      {};  ///< It, or a later one, was refused there, and none of them is in force.
  std::vector<ConfigurationReport> behind = {};  ///< They have come to neither.
  std::vector<std::string> missing = {};         ///< Nothing was heard of them: they do not run, or do not report.

  /// All have applied it.
  bool complete() const noexcept;

  friend bool operator==(const ConfigurationRollOut&, const ConfigurationRollOut&) = default;
};

}  // namespace zkrecipes
