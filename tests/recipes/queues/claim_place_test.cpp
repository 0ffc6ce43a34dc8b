#include "recipes/queues/claim_place.hpp"

#include <gtest/gtest.h>

namespace zkrecipes::detail {
namespace {

using Places = std::vector<std::string>;

TEST(ClaimPlace, IsBesideTheNodeThatHoldsTheQuota) {
  EXPECT_EQ(claim_place("/a/q/claims/item-1", "/a/q"), "/a/q-claim-claims%2Fitem-1");
  EXPECT_EQ(claim_place("/a/q/claims/item-1", "/a"), "/a-claim-q%2Fclaims%2Fitem-1");
  EXPECT_EQ(claim_place("/a/q/claims/item-1", "/a/q/claims"), "/a/q/claims-claim-item-1");
}

TEST(ClaimPlace, IsAnotherOneForEachItem) {
  EXPECT_NE(claim_place("/a/q%2Fclaims/item-1", "/a"), claim_place("/a/q/claims/item-1", "/a"));
  EXPECT_EQ(claim_place("/a/q%2Fclaims/item-1", "/a"), "/a-claim-q%252Fclaims%2Fitem-1");
}

TEST(ClaimPlace, MayBeBesideAnyNodeAbove) {
  EXPECT_EQ(claim_places("/a/q/claims/item-1"),
            (Places{"/a/q/claims-claim-item-1", "/a/q-claim-claims%2Fitem-1", "/a-claim-q%2Fclaims%2Fitem-1"}));
}

}  // namespace
}  // namespace zkrecipes::detail
