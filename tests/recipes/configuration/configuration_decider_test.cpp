// What a snapshot means, what a publication writes, and the texts of nodes and files.

#include "recipes/configuration/configuration_decider.hpp"
#include "recipes/configuration/configuration_reports.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace zkrecipes::detail {
namespace {

using zkclient::Errc;
using VerdictKind = ConfigurationVerdict::Kind;
using Texts = std::map<std::string, std::string>;

/// A subtree as a server keeps it.
class Tree {
 public:
  /// As one transaction. False: it would be refused.
  bool apply(const PublicationPlan& plan) {
    std::map<std::string, ConfigurationNode> next = nodes_;
    if (plan.version != version_) return false;
    ++zxid_;
    for (const PlannedWrite& write : plan.writes) {
      const auto there = next.find(write.path);
      const bool exists = there != next.end();
      if (exists == (write.kind == PlannedWrite::Kind::create)) return false;
      if (exists && there->second.version != write.version) return false;
      if (write.kind == PlannedWrite::Kind::remove) {
        const auto below = next.upper_bound(write.path + "/");
        if (below != next.end() && below->first.starts_with(write.path + "/")) return false;
        next.erase(there);
      } else {
        const std::size_t slash = write.path.rfind('/');
        if (!exists && slash != std::string::npos && !next.contains(write.path.substr(0, slash))) return false;
        put(next, write.path, write.data);
      }
    }
    nodes_ = std::move(next);
    ConfigurationRecord record = plan.record;
    record.writer = "w" + std::to_string(zxid_);
    record_ = encode(record);
    ++version_;
    mzxid_ = zxid_;
    return true;
  }
  void edit(const std::string& path, const std::string& data) {
    ++zxid_;
    put(nodes_, path, data);
  }
  void remove(const std::string& path) {
    ++zxid_;
    nodes_.erase(path);
  }
  void set_record(const std::string& data) {
    ++zxid_;
    record_ = data;
    ++version_;
    mzxid_ = zxid_;
  }
  ConfigurationTree seen(bool exact = true) const {
    ConfigurationTree seen;
    seen.exists = true;
    seen.record = record_;
    seen.version = version_;
    seen.mzxid = mzxid_;
    seen.exact = exact;
    for (const auto& [path, node] : nodes_)
      seen.nodes.push_back(node);
    return seen;
  }

 private:
  void put(std::map<std::string, ConfigurationNode>& nodes, const std::string& path, const std::string& data) const {
    const auto [node, added] = nodes.try_emplace(path);
    node->second.path = path;
    node->second.data = data;
    node->second.version = added ? 0 : node->second.version + 1;
    node->second.mzxid = zxid_;
  }

  std::map<std::string, ConfigurationNode> nodes_;
  std::string record_;
  std::int32_t version_ = 0;
  std::int64_t mzxid_ = 1;
  std::int64_t zxid_ = 1;
};

Texts texts(const ConfigurationValues& values) {
  Texts all;
  for (const auto& [key, value] : values.values)
    all[key] = value.text;
  return all;
}

ConfigurationUpdate update(std::map<std::string, std::optional<std::string>> values) {
  ConfigurationUpdate update;
  update.values = std::move(values);
  return update;
}

bool publish(Tree& tree, std::map<std::string, std::optional<std::string>> values) {
  const PublicationDecision decision = plan_publication(tree.seen(), nullptr, update(std::move(values)), any_revision);
  return decision.plan && tree.apply(*decision.plan);
}

std::optional<Errc> refusal(const Tree& tree, const ConfigurationValues* known, const ConfigurationUpdate& update,
                            std::int64_t expected = any_revision) {
  const PublicationDecision decision = plan_publication(tree.seen(), known, update, expected);
  return decision.plan ? std::nullopt : std::optional(decision.refusal.code);
}

TEST(ConfigurationDecider, NothingThereOrNothingPublished) {
  EXPECT_EQ(decide({}, nullptr).kind, VerdictKind::missing);
  Tree tree;
  EXPECT_EQ(decide(tree.seen(), nullptr).kind, VerdictKind::missing);
  tree.edit("a", "1");
  const ConfigurationVerdict by_hand = decide(tree.seen(), nullptr);
  ASSERT_EQ(by_hand.kind, VerdictKind::candidate);
  EXPECT_EQ(by_hand.values->revision, 0);
  EXPECT_TRUE(by_hand.values->edited);
  EXPECT_EQ(texts(*by_hand.values), (Texts{{"a", "1"}}));
}

TEST(ConfigurationDecider, APublicationIsAcceptedOnce) {
  Tree tree;
  ASSERT_TRUE(publish(tree, {{"a", "1"}, {"b/c", "2"}}));
  const ConfigurationVerdict first = decide(tree.seen(), nullptr);
  ASSERT_EQ(first.kind, VerdictKind::candidate);
  EXPECT_EQ(first.values->revision, 1);
  EXPECT_FALSE(first.values->edited);
  EXPECT_EQ(texts(*first.values), (Texts{{"a", "1"}, {"b/c", "2"}})) << "a directory is no key";
  EXPECT_EQ(decide(tree.seen(), first.values.get()).kind, VerdictKind::same);
  ASSERT_TRUE(publish(tree, {{"a", "1"}}));
  EXPECT_EQ(decide(tree.seen(), first.values.get()).kind, VerdictKind::candidate) << "the same values, a new revision";
}

TEST(ConfigurationDecider, EditsByHandAreShownAsSuch) {
  Tree tree;
  ASSERT_TRUE(publish(tree, {{"a", "1"}, {"b", "2"}}));
  tree.edit("b", "3");
  const ConfigurationVerdict edited = decide(tree.seen(), nullptr);
  ASSERT_EQ(edited.kind, VerdictKind::candidate);
  EXPECT_TRUE(edited.values->edited);
  EXPECT_FALSE(edited.values->values.at("a").edited);
  EXPECT_TRUE(edited.values->values.at("b").edited);
  tree.remove("b");
  EXPECT_TRUE(decide(tree.seen(), nullptr).values->edited) << "a key that is gone was edited as well";
  ASSERT_TRUE(publish(tree, {{"a", "4"}}));
  EXPECT_FALSE(decide(tree.seen(), nullptr).values->edited) << "a publication takes edits over";
}

// Each node of a torn snapshot is read before or after the publication. Only a whole one counts.
TEST(ConfigurationDecider, HalfAPublicationIsNeverAccepted) {
  Tree tree;
  ASSERT_TRUE(publish(tree, {{"a", "1"}, {"b", "1"}, {"c", "1"}}));
  const ConfigurationTree before = tree.seen(false);
  ASSERT_TRUE(publish(tree, {{"a", "2"}, {"b", "2"}, {"c", std::nullopt}, {"d", "2"}}));
  const ConfigurationTree after = tree.seen(false);
  const Texts old_texts{{"a", "1"}, {"b", "1"}, {"c", "1"}};
  const Texts new_texts{{"a", "2"}, {"b", "2"}, {"d", "2"}};
  int accepted = 0;
  for (int mix = 0; mix < 32; ++mix) {
    ConfigurationTree torn = (mix & 16) != 0 ? after : before;
    torn.nodes.clear();
    const std::string names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; ++i) {
      const ConfigurationTree& from = (mix & (1 << i)) != 0 ? after : before;
      for (const ConfigurationNode& node : from.nodes) {
        if (node.path == names[i]) torn.nodes.push_back(node);
      }
    }
    const ConfigurationVerdict verdict = decide(torn, nullptr);
    if (verdict.kind == VerdictKind::wait) continue;
    ASSERT_EQ(verdict.kind, VerdictKind::candidate);
    ++accepted;
    EXPECT_EQ(texts(*verdict.values), verdict.values->revision == 1 ? old_texts : new_texts) << mix;
  }
  EXPECT_EQ(accepted, 2) << "all of the former one, all of the latter";
}

TEST(ConfigurationDecider, AnEditIsNotBelievedInAnInexactSnapshot) {
  Tree tree;
  ASSERT_TRUE(publish(tree, {{"a", "1"}}));
  EXPECT_EQ(decide(tree.seen(false), nullptr).kind, VerdictKind::candidate) << "it fits the checksum";
  tree.edit("a", "2");
  EXPECT_EQ(decide(tree.seen(false), nullptr).kind, VerdictKind::wait);
  EXPECT_EQ(decide(tree.seen(true), nullptr).kind, VerdictKind::candidate);
}

TEST(ConfigurationDecider, MalformedAndUnreadable) {
  Tree tree;
  ASSERT_TRUE(publish(tree, {{"a", "1"}}));
  ConfigurationTree unreadable = tree.seen();
  unreadable.nodes.front().unreadable = Errc::no_auth;
  const ConfigurationVerdict verdict = decide(unreadable, nullptr);
  EXPECT_EQ(verdict.kind, VerdictKind::unreadable);
  EXPECT_EQ(verdict.code, Errc::no_auth);
  EXPECT_EQ(verdict.where, "a");
  for (const char* record : {"x", "configuration 1\n", "configuration 1\nrevision 1\nchecksum 12\nwriter w\n"}) {
    tree.set_record(record);
    EXPECT_EQ(decide(tree.seen(), nullptr).kind, VerdictKind::malformed) << record;
    EXPECT_EQ(refusal(tree, nullptr, update({{"a", "2"}})), Errc::foreign_node);
  }
  ConfigurationRecord far;
  far.writer = "w";
  far.revision = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(decode_record(encode(far)), std::nullopt) << "nothing can be added to it";
  far.revision = last_revision;
  tree.set_record(encode(far));
  EXPECT_EQ(decide(tree.seen(), nullptr).kind, VerdictKind::candidate);
  EXPECT_EQ(refusal(tree, nullptr, update({{"a", "2"}})), Errc::foreign_node) << "the next one would be malformed";
}

TEST(ConfigurationDecider, NodesOfItsOwnAreNoKeys) {
  Tree tree;
  tree.edit("-history", "");
  tree.edit("-history/r-0", "x");
  tree.edit("a", "");
  tree.edit("a/-x", "y");
  EXPECT_EQ(texts(*decide(tree.seen(), nullptr).values), (Texts{{"a", ""}}));
}

// --- Plans -----------------------------------------------------------------------------------------------------------

TEST(ConfigurationPlan, DirectoriesComeAndGoWithTheirKeys) {
  Tree tree;
  ASSERT_TRUE(publish(tree, {{"x/y/a", "1"}, {"x/b", "2"}}));
  ASSERT_TRUE(publish(tree, {{"x/y/a", std::nullopt}}));
  EXPECT_EQ(texts(*decide(tree.seen(), nullptr).values), (Texts{{"x/b", "2"}})) << "x/y has not become a key";
  ASSERT_TRUE(publish(tree, {{"x/b", std::nullopt}, {"x", "3"}})) << "a directory becomes a key";
  EXPECT_EQ(texts(*decide(tree.seen(), nullptr).values), (Texts{{"x", "3"}}));
  ASSERT_TRUE(publish(tree, {{"x", std::nullopt}, {"x/c", "4"}})) << "and the other way round";
  EXPECT_EQ(texts(*decide(tree.seen(), nullptr).values), (Texts{{"x/c", "4"}}));
}

TEST(ConfigurationPlan, AKeyBelowAKeyIsRefused) {
  Tree tree;
  ASSERT_TRUE(publish(tree, {{"a", "1"}}));
  EXPECT_EQ(refusal(tree, nullptr, update({{"a/b", "2"}})), Errc::invalid_argument);
  EXPECT_EQ(refusal(tree, nullptr, update({{"c", "1"}, {"c/d/e", "2"}})), Errc::invalid_argument);
  EXPECT_EQ(refusal(tree, nullptr, update({})), Errc::invalid_argument);
}

TEST(ConfigurationPlan, AnotherRevisionIsRefused) {
  Tree tree;
  ASSERT_TRUE(publish(tree, {{"a", "1"}}));
  EXPECT_EQ(refusal(tree, nullptr, update({{"a", "2"}}), 0), Errc::bad_version);
  EXPECT_EQ(refusal(tree, nullptr, update({{"a", "2"}}), 1), std::nullopt);
}

TEST(ConfigurationPlan, AnUnseenEditIsNotOverwritten) {
  Tree tree;
  ASSERT_TRUE(publish(tree, {{"a", "1"}, {"b", "1"}}));
  const ConfigurationVerdict known = decide(tree.seen(), nullptr);
  tree.edit("a", "2");
  EXPECT_EQ(refusal(tree, known.values.get(), update({{"a", "3"}})), Errc::bad_version);
  EXPECT_EQ(refusal(tree, nullptr, update({{"a", std::nullopt}})), Errc::bad_version);
  EXPECT_EQ(refusal(tree, known.values.get(), update({{"b", "3"}})), std::nullopt) << "of other keys it may be";
  ConfigurationUpdate forced = update({{"a", "3"}});
  forced.overwrite_edits = true;
  EXPECT_EQ(refusal(tree, known.values.get(), forced), std::nullopt);
  const ConfigurationVerdict seen = decide(tree.seen(), nullptr);
  EXPECT_EQ(refusal(tree, seen.values.get(), update({{"a", "3"}})), std::nullopt);
  tree.edit("new", "x");
  EXPECT_EQ(refusal(tree, seen.values.get(), update({{"new", "y"}})), Errc::bad_version);
  tree.remove("b");
  EXPECT_EQ(refusal(tree, seen.values.get(), update({{"b", "y"}})), Errc::bad_version);
}

TEST(ConfigurationPlan, TheHistoryIsShortened) {
  using Names = std::vector<std::string>;
  Names listed = {"r-4", history_name(7), "x", history_name(3), history_name(6), history_name(5)};
  EXPECT_EQ(outdated_history(listed, 8, 2), (Names{history_name(3), "r-4", history_name(5)}));
  EXPECT_EQ(outdated_history(listed, 8, 5), Names());
  EXPECT_EQ(outdated_history(listed, 8, std::numeric_limits<std::size_t>::max()), Names()) << "all are kept";
  listed.clear();
  for (std::int64_t revision = 20'000; revision-- > 0;)
    listed.push_back(history_name(revision));
  const Names outdated = outdated_history(listed, 20'000, 20);
  EXPECT_EQ(outdated.size(), 100U) << "more might not fit into one request";
  EXPECT_EQ(outdated.front(), history_name(0));
  EXPECT_EQ(outdated.back(), history_name(99));
}

// Each edit came between the look of the second publisher and its transaction, so the record is newer.
TEST(ConfigurationPlan, AnEditThatIsOlderThanTheRecordIsNotOverwritten) {
  Tree tree;
  ASSERT_TRUE(publish(tree, {{"a", "1"}, {"b", "1"}, {"c", "1"}, {"gone", "1"}}));
  const ConfigurationVerdict known = decide(tree.seen(), nullptr);
  const PublicationDecision second = plan_publication(tree.seen(), nullptr, update({{"a", "2"}}), any_revision);
  ASSERT_TRUE(second.plan);
  tree.edit("b", "edited");
  tree.edit("new", "edited");
  tree.remove("gone");
  ASSERT_TRUE(tree.apply(*second.plan));
  const auto unseen = std::optional(Errc::bad_version);
  for (const char* key : {"b", "new", "gone"})
    EXPECT_EQ(refusal(tree, known.values.get(), update({{key, "3"}})), unseen) << key;
  EXPECT_EQ(refusal(tree, nullptr, update({{"b", "3"}})), std::nullopt) << "a publisher that knows nothing";
  const auto back = update({{"b", "3"}, {"new", std::nullopt}, {"gone", "3"}});
  EXPECT_TRUE(plan_publication(tree.seen(), known.values.get(), back, any_revision, OlderEdits::replace).plan);
  EXPECT_EQ(refusal(tree, known.values.get(), update({{"a", "3"}})), std::nullopt) << "the record's own write";
  EXPECT_EQ(refusal(tree, known.values.get(), update({{"c", "3"}})), std::nullopt) << "nobody has changed it";
  const ConfigurationVerdict seen = decide(tree.seen(), nullptr);
  EXPECT_EQ(refusal(tree, seen.values.get(), update({{"b", "3"}, {"new", "3"}, {"gone", "3"}})), std::nullopt);
  tree.edit("c", "edited");
  EXPECT_EQ(plan_publication(tree.seen(), known.values.get(), update({{"c", "3"}}), any_revision, OlderEdits::replace)
                .refusal.code,
            Errc::bad_version)
      << "newer than the record";
}

// Whatever was published: the tree is what its publishers wanted, and the undos lead back to each revision.
TEST(ConfigurationPlan, RandomPublicationsAndTheWayBack) {
  std::mt19937 random(7);
  const std::vector<std::string> keys = {"a", "b", "b/c", "b/d", "e/f/g", "e/f", "e/h"};
  for (int round = 0; round < 300; ++round) {
    Tree tree;
    std::vector<Texts> revisions(1);
    std::vector<KeyChanges> undos;
    for (int i = 0; i < 8; ++i) {
      Texts wanted = revisions.back();
      ConfigurationUpdate next;
      for (const std::string& key : keys) {
        const auto dice = random() % 4;
        if (dice > 1) continue;
        if (dice == 0) next.values[key] = std::to_string(random() % 3);
        if (dice == 1) next.values[key] = std::nullopt;
      }
      if (next.values.empty()) continue;
      for (const auto& [key, value] : next.values) {
        wanted.erase(key);
        if (value) wanted[key] = *value;
      }
      const PublicationDecision decision = plan_publication(tree.seen(), nullptr, next, any_revision);
      if (!decision.plan) {
        EXPECT_EQ(decision.refusal.code, Errc::invalid_argument) << decision.refusal.detail;
        continue;
      }
      ASSERT_TRUE(tree.apply(*decision.plan));
      const ConfigurationVerdict verdict = decide(tree.seen(), nullptr);
      ASSERT_EQ(verdict.kind, VerdictKind::candidate);
      ASSERT_FALSE(verdict.values->edited);
      ASSERT_EQ(texts(*verdict.values), wanted);
      undos.push_back(decision.plan->undo.replaced);
      revisions.push_back(std::move(wanted));
    }
    for (std::size_t back = undos.size(); back-- > 0;) {
      ASSERT_TRUE(publish(tree, {undos[back].begin(), undos[back].end()}) || undos[back].empty());
      ASSERT_EQ(texts(ConfigurationValues{.values = decide(tree.seen(), nullptr).values
                                                        ? decide(tree.seen(), nullptr).values->values
                                                        : ConfigurationValues::Map()}),
                revisions[back]);
    }
  }
}

TEST(ConfigurationPlan, Differences) {
  ConfigurationValues before;
  before.values = {{"a", {"1"}}, {"b", {"1"}}, {"c", {"1"}}};
  ConfigurationValues after;
  after.values = {{"b", {"2"}}, {"c", {"1", 7, true}}, {"d", {"1"}}};
  using Changes = std::vector<ConfigurationChange>;
  EXPECT_EQ(changes_between(&before, after),
            (Changes{{"a", "1", std::nullopt}, {"b", "1", "2"}, {"d", std::nullopt, "1"}}));
  EXPECT_EQ(changes_between(nullptr, before).size(), 3U);
  EXPECT_FALSE(same_texts(before, after));
  EXPECT_TRUE(same_texts(before, before));
}

// --- Texts -----------------------------------------------------------------------------------------------------------

ConfigurationRecord some_record() {
  ConfigurationRecord record;
  record.revision = 7;
  record.checksum = 0xabcdefU;
  record.time_ms = 123456789;
  record.writer = "w";
  record.publisher = "host 12";
  record.note = "more";
  return record;
}

TEST(ConfigurationFormat, Records) {
  EXPECT_EQ(decode_record(encode(some_record())), some_record());
  EXPECT_EQ(decode_record("")->revision, 0);
  ConfigurationRecord lines = some_record();
  lines.note = "two\nrevision 9";
  EXPECT_EQ(decode_record(encode(lines))->revision, 7);
  EXPECT_EQ(decode_record(encode(lines))->note, "two revision 9");
  EXPECT_TRUE(decode_record(encode(some_record()) + "later 1\n")) << "what a later version adds";
  ConfigurationRecord far = some_record();
  for (const std::int64_t time : {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    far.time_ms = time;
    EXPECT_EQ(decode_record(encode(far))->time_ms, 0) << "more than the nanoseconds of a clock can count";
  }
}

TEST(ConfigurationFormat, Undos) {
  ConfigurationUndo undo;
  undo.record = some_record();
  undo.replaced = {{"a", std::nullopt}, {"b", ""}, {"c", std::string("1:\n\0x", 5)}};
  EXPECT_EQ(decode_undo(encode(undo)), undo);
  const std::string text = encode(undo);
  for (std::size_t size = 0; size < text.size(); ++size) {
    const auto cut = decode_undo(text.substr(0, size));
    EXPECT_TRUE(!cut || cut->replaced.size() < 3) << size;
  }
  EXPECT_EQ(revision_of_history(history_name(42)), 42);
  EXPECT_FALSE(revision_of_history("r-x"));
  EXPECT_LT(history_name(9), history_name(10));
}

TEST(ConfigurationFormat, FilesThatAreTornOrForeignAreRefused) {
  ConfigurationValues values;
  values.revision = 3;
  values.publisher = "host";
  values.note = "n";
  values.values = {{"a", {"1"}}, {"b/c", {"x\ny"}}};
  const std::string text = encode_file("/path", values);
  const auto read = decode_file("/path", text);
  ASSERT_TRUE(read);
  EXPECT_EQ(texts(*read), texts(values));
  EXPECT_EQ(read->revision, 3);
  EXPECT_FALSE(decode_file("/other", text));
  for (std::size_t i = 0; i < text.size(); ++i) {
    EXPECT_FALSE(decode_file("/path", text.substr(0, i)));
    std::string flipped = text;
    flipped[i] ^= 1;
    EXPECT_FALSE(decode_file("/path", flipped)) << i;
  }
}

TEST(ConfigurationFormat, Keys) {
  for (const char* key : {"a", "a/b", "a-b", "a/b-c"})
    EXPECT_EQ(key_defect(key), nullptr) << key;
  for (const char* key : {"", "-a", "a/-b"})
    EXPECT_NE(key_defect(key), nullptr) << key;
}

// --- Reports ---------------------------------------------------------------------------------------------------------

TEST(ConfigurationReportsDecider, TextsOfReports) {
  const std::vector<ConfigurationReport> reports = {
      {"one", std::nullopt, std::nullopt, ""},
      {"one", 0, std::nullopt, ""},
      {"one", 7, 9, "limits are too low"},
      {"one", std::nullopt, 1, "x"},
  };
  for (const ConfigurationReport& report : reports)
    EXPECT_EQ(decode_report("one", encode(report)), report);
  EXPECT_EQ(decode_report("id", encode(ConfigurationReport{"", 1, 2, "two\nlines"}))->why, "two lines");
  EXPECT_EQ(decode_report("id", encode(ConfigurationReport{"", 1, 2, std::string(9000, 'x')}))->why.size(), 500U);
  for (const char* text : {"", "configuration 1\n", "configuration report 2\napplied 1\n", "\n"})
    EXPECT_EQ(decode_report("one", text), std::nullopt) << text;
  const auto odd = decode_report("one", "configuration report 1\nlater 1\n\nwhy\nrefused\nrefused x\napplied 3");
  EXPECT_EQ(odd, (ConfigurationReport{"one", 3, std::nullopt, ""}));
}

TEST(ConfigurationReportsDecider, EachFollowerIsInOneList) {
  const std::vector<std::optional<std::int64_t>> revisions = {std::nullopt, 3, 4, 5};
  for (const auto applied : revisions) {
    for (const auto refused : revisions) {
      ConfigurationReports reports;
      reports["one"] = {{"one", applied, refused, "why"}, 0};
      const ConfigurationRollOut out = judge_roll_out(reports, 4, {"one", "other"}, 0);
      const bool is_applied = applied && *applied >= 4;
      const bool is_refused = !is_applied && refused && *refused >= 4;
      EXPECT_EQ(out.applied.size(), is_applied ? 1U : 0U);
      EXPECT_EQ(out.refused.size(), is_refused ? 1U : 0U);
      EXPECT_EQ(out.behind.size(), is_applied || is_refused ? 0U : 1U);
      EXPECT_EQ(out.missing, std::vector<std::string>{"other"});
      EXPECT_FALSE(is_decided(out));
      EXPECT_FALSE(out.complete());
      const ConfigurationRollOut alone = judge_roll_out(reports, 4, {"one"}, 0);
      EXPECT_EQ(is_decided(alone), is_applied || is_refused);
      EXPECT_EQ(alone.complete(), is_applied);
    }
  }
  EXPECT_TRUE(judge_roll_out({}, 1, {}, 0).complete());
}

// Revisions begin again in a path that was removed and made again.
TEST(ConfigurationReportsDecider, AReportAboutAnotherPathCountsForNothing) {
  for (const std::int64_t about : {0, 7, 8}) {
    for (const std::int64_t now : {0, 7}) {
      ConfigurationReports reports;
      reports["one"] = {{"one", 9, std::nullopt, ""}, about};
      reports["two"] = {{"two", std::nullopt, 9, "why"}, about};
      const ConfigurationRollOut out = judge_roll_out(reports, 1, {"one", "two"}, now);
      const bool foreign = now == 7 && about == 8;
      EXPECT_EQ(out.applied.size(), foreign ? 0U : 1U);
      EXPECT_EQ(out.refused.size(), foreign ? 0U : 1U);
      if (foreign) {
        EXPECT_EQ(out.behind, (std::vector<ConfigurationReport>{{"one"}, {"two"}}));
      }
    }
  }
  const ConfigurationReport report{"one", 7, 9, "why"};
  EXPECT_EQ(epoch_of_report(encode(report, 77)), 77);
  EXPECT_EQ(epoch_of_report(encode(report)), 0);
  EXPECT_EQ(decode_report("one", encode(report, 77)), report);
  for (const char* text : {"", "configuration report 1\n", "configuration report 1\nof x\n", "of 7\n"})
    EXPECT_EQ(epoch_of_report(text), 0) << text;
}

}  // namespace
}  // namespace zkrecipes::detail
