#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/error.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/lease.hpp>

/// The instances of services, as registrars write them and as discovery.hpp finds them.
namespace zkrecipes {

/// How long an instance is listed.
enum class ServiceType {
  dynamic,             ///< Goes when its registrar goes. DYNAMIC on the wire, an ephemeral node.
  dynamic_sequential,  ///< The same, several under one id. DYNAMIC_SEQUENTIAL; the node's name has 10 digits more.
  fixed,               ///< Goes when its registrar takes it away, and outlives a crash. STATIC, a persistent node.
  permanent,           ///< Stays until it is unregistered. PERMANENT, a persistent node.
};

/// "DYNAMIC", "DYNAMIC_SEQUENTIAL", "STATIC", "PERMANENT".
ZKRECIPES_API const char* to_string(ServiceType type) noexcept;

/// A part of the pattern of a service's address: a text, or the name of a variable.
struct UriPart {
  std::string value;      ///< The text, or the variable's name.
  bool variable = false;  ///< It is a variable's name.

  friend bool operator==(const UriPart&, const UriPart&) = default;
};

/// A pattern like "{scheme}://{address}:{port}/api", as its parts.
struct ZKRECIPES_API UriSpec {
  std::vector<UriPart> parts = {};  ///< In their order.

  /// Text in braces is a variable, without the blanks around it; "{[}" and "{]}" stand for braces. Braces without a
  /// partner are plain text.
  static UriSpec parse(std::string_view pattern);

  friend bool operator==(const UriSpec&, const UriSpec&) = default;
};

/// One instance of a service: how to reach it. All texts are UTF-8.
struct ZKRECIPES_API ServiceInstance {
  using Milliseconds = std::chrono::sys_time<std::chrono::milliseconds>;  ///< A time as it stands on the wire.

  std::string name;          ///< The service's. A component of a path.
  std::string id = {};       ///< Unique within the service, a component of a path. Empty: registering makes one up.
  std::string address = {};  ///< A host name or an IP address. Empty: null on the wire.
  /// Where it listens without encryption, and with it; null on the wire if it does not.
  std::optional<std::int32_t> port = {};
  std::optional<std::int32_t> ssl_port = {};  ///< With encryption.
  /// Any JSON value, as text; empty: null. A text is `"text"`, with its quotes. Curator reads an object if "@class"
  /// names its Java class, or if its reader takes any object. Written without spaces; a number that is neither a 64-bit
  /// integer nor a double is rounded.
  std::string payload = {};
  Milliseconds registered = {};  ///< When, by the registrar's clock. The epoch: registering takes the present time.
  ServiceType type = ServiceType::dynamic;  ///< How long the instance is listed.
  std::optional<UriSpec> uri_spec = {};     ///< Nothing: null on the wire.
  bool enabled = true;                      ///< False: listed, but never picked.
  /// What a foreign registrar wrote besides: a JSON object with those keys, as text. It is written again.
  std::string unknown = {};

  /// The uri_spec with its variables replaced: scheme ("https" with an ssl_port, else "http"), address, port (the
  /// ssl_port if there is no port), ssl-port, name, id, registration-time-utc (ms), service-type (in small letters),
  /// "[" and "]" (an open and a closing brace). Others are left out. "" without a uri_spec.
  std::string uri() const;

  friend bool operator==(const ServiceInstance&, const ServiceInstance&) = default;
};

/// An instance as its node shows it. Immutable, and shared by all that hold it.
struct ListedInstance {
  ServiceInstance instance;       ///< What the node says.
  std::string node = {};          ///< The name of its node. Differs from the id if it is sequential.
  FencingToken incarnation = {};  ///< Grows each time that it is registered anew; an update keeps it.
  std::int64_t session_id = 0;    ///< The session that it lives with; 0: none, its node is persistent.
  /// False: it is not listed any more. It vanished a moment ago, when the service's list became empty: see
  /// ProviderOptions::last_resort.
  bool confirmed = true;

  friend bool operator==(const ListedInstance&, const ListedInstance&) = default;
};
/// Shared by all lists that contain the instance as it is.
using ListedInstancePtr = std::shared_ptr<const ListedInstance>;

/// The instances of a service at one instant, ordered by the names of their nodes.
struct ServiceListing {
  std::vector<ListedInstancePtr> instances = {};  ///< Disabled ones, too.
  /// Nodes that are no instances (foreign_node, with what is wrong), or that may not be read (no_auth, ...).
  std::vector<zkclient::Error> skipped = {};
};

}  // namespace zkrecipes
