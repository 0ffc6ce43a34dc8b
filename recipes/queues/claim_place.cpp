#include "recipes/queues/claim_place.hpp"

#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

std::string claim_place(const std::string& claim, const std::string& holder) {
  std::string place = holder + "-claim-";
  for (const char letter : claim.substr(holder.size() + 1)) {
    switch (letter) {
      case '/': place += "%2F"; break;
      case '%': place += "%25"; break;
      default: place += letter;
    }
  }
  return place;
}

std::vector<std::string> claim_places(const std::string& claim) {
  std::vector<std::string> places;
  for (std::string holder = zk::parent_of(claim); holder != "/"; holder = zk::parent_of(holder))
    places.push_back(claim_place(claim, holder));
  return places;
}

}  // namespace zkrecipes::detail
