#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>

#include <zkclient/export.hpp>

#include "zkclient/detail/requests/request.hpp"

namespace zkclient::detail {

class ClientCore;

/// Tells those who view parts of the tree of the writes that this client sends there. Lives on the loop thread.
///
/// A server sends the events of a transaction ahead of any later answer on that connection. So when a write is answered, its
/// own events have come, and a view with watches on the same session knows already what it has to read again.
class ZKRECIPES_INTERNAL_API OwnWrites {
 public:
  /// `session`: the one that has answered, and told of the change by its watches; null: the write may have been applied, or
  /// may still be, and nothing tells.
  using Observer = std::function<void(const std::shared_ptr<SessionState>& session)>;

  /// An observer's place, until this goes. It must not outlive the client, nor be ended by an observer.
  class Watch;

  /// Of writes to the node at `path`, a full one, and to all below it.
  [[nodiscard]] Watch observe(std::string path, Observer observer);
  /// `request` was answered by `session`, with whatever; null: its answer was lost.
  void tell(const Request& request, const std::shared_ptr<SessionState>& session) const;

 private:
  struct Place {
    std::string path;
    Observer observer;
  };

  std::list<Place> places_;
};

/// Those of a client. On its loop thread.
ZKRECIPES_INTERNAL_API OwnWrites& own_writes_of(ClientCore& client);
/// What the views of a client share, for as long as one of them keeps it. On its loop thread.
ZKRECIPES_INTERNAL_API std::weak_ptr<void>& shared_by_views_of(ClientCore& client);

class OwnWrites::Watch {
 public:
  Watch(OwnWrites& writes, std::list<Place>::iterator place) : writes_(writes), place_(place) {}
  ~Watch() { writes_.places_.erase(place_); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  OwnWrites& writes_;
  const std::list<Place>::iterator place_;
};

}  // namespace zkclient::detail
