// Instances as Curator's JsonInstanceSerializer writes and reads them, and what is no instance.

#include "recipes/discovery/instance_format.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/support/memory.hpp"

namespace zkrecipes {
namespace {

using detail::read_instance;
using detail::write_instance;

// As Curator 5.4 wrote them.
const std::string curators_full =
    R"({"name":"n","id":"i","address":"1.2.3.4","port":80,"sslPort":443,"payload":{"@class":"Probe$Pay","a":"x","b":3},)"
    R"("registrationTimeUTC":12345,"serviceType":"DYNAMIC","uriSpec":{"parts":[{"value":"scheme","variable":true},)"
    R"({"value":"://","variable":false},{"value":"address","variable":true},{"value":"/ä","variable":false}]}})";
const std::string curators_smallest =
    R"({"name":"n","id":"i","address":null,"port":null,"sslPort":null,"payload":null,"registrationTimeUTC":1,)"
    R"("serviceType":"PERMANENT","uriSpec":null})";

ServiceInstance read(const std::string& text) {
  const detail::ReadInstance found = read_instance(text);
  EXPECT_TRUE(found.instance) << text << ": " << found.defect;
  return found.instance.value_or(ServiceInstance{});
}
std::string written(const ServiceInstance& instance) {
  const detail::WrittenInstance text = write_instance(instance);
  EXPECT_TRUE(text.bytes) << text.defect;
  return text.bytes.value_or("");
}
std::string with(const std::string& keys) { return R"({"name":"n","id":"i",)" + keys + "}"; }
std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(InstanceFormat, IsCurators) {
  ServiceInstance instance{.name = "n", .id = "i", .address = "1.2.3.4", .port = 80, .ssl_port = 443};
  instance.payload = R"({"@class":"Probe$Pay","a":"x","b":3})";
  instance.registered = ServiceInstance::Milliseconds(std::chrono::milliseconds(12345));
  instance.uri_spec = UriSpec::parse("{scheme}://{address}/ä");
  EXPECT_EQ(written(instance), curators_full);
  EXPECT_EQ(read(curators_full), instance);

  const ServiceInstance smallest{.name = "n",
                                 .id = "i",
                                 .registered = ServiceInstance::Milliseconds(std::chrono::milliseconds(1)),
                                 .type = ServiceType::permanent};
  EXPECT_EQ(written(smallest), curators_smallest);
  EXPECT_EQ(read(curators_smallest), smallest);
}

TEST(InstanceFormat, EachTypeAndEachOptionalKeySurvives) {
  for (int bits = 0; bits < 256; ++bits) {
    const auto bit = [bits](int number) { return ((bits >> number) & 1) != 0; };
    ServiceInstance instance{.name = "n", .id = "i"};
    instance.type = static_cast<ServiceType>(bits & 3);
    if (bit(2)) instance.address = "host";
    if (bit(3)) instance.port = -1;
    if (bit(4)) instance.ssl_port = std::numeric_limits<std::int32_t>::max();
    if (bit(5)) instance.payload = "\"\\u00e4\"";
    if (bit(6)) instance.uri_spec = UriSpec{};
    instance.enabled = bit(7);
    ServiceInstance expected = instance;
    if (bit(5)) expected.payload = "\"ä\"";
    EXPECT_EQ(read(written(instance)), expected) << bits;
  }
}

// V58: `enabled` is missing or false.
TEST(InstanceFormat, EnabledIsWrittenOnlyIfFalse) {
  EXPECT_TRUE(read(curators_full).enabled);
  EXPECT_TRUE(read(with(R"("enabled":true)")).enabled);
  EXPECT_FALSE(read(with(R"("enabled":false)")).enabled);
  EXPECT_FALSE(read(with(R"("enabled":null)")).enabled) << "as Jackson reads a boolean without a value";
  ServiceInstance instance{.name = "n", .id = "i"};
  EXPECT_EQ(written(instance).find("enabled"), std::string::npos);
  instance.enabled = false;
  EXPECT_TRUE(written(instance).ends_with(R"("uriSpec":null,"enabled":false})"));
}

// V58: what a foreign registrar wrote besides is written again, in its order, behind the keys that are known.
TEST(InstanceFormat, UnknownKeysAreKept) {
  const ServiceInstance instance = read(R"({"zone":{"z":1,"a":[null]},"name":"n","weight":3,"id":"i"})");
  EXPECT_EQ(instance.unknown, R"({"zone":{"z":1,"a":[null]},"weight":3})");
  EXPECT_TRUE(written(instance).ends_with(R"("uriSpec":null,"zone":{"z":1,"a":[null]},"weight":3})"));
  EXPECT_EQ(read(written(instance)), instance);
}

// V58: null, a text, a number, an object with a class, an array.
TEST(InstanceFormat, PayloadIsAnyJson) {
  for (const char* payload : {"\"text\"", "5", "true", "-1.5", R"({"@class":"A","k":{}})",
                              R"(["java.util.List",["p"]])", "18446744073709551615", R"("\u0000\n\"")"}) {
    ServiceInstance instance{.name = "n", .id = "i"};
    instance.payload = payload;
    EXPECT_EQ(read(written(instance)).payload, payload);
  }
  EXPECT_EQ(read(with(R"("payload":null)")).payload, "");
  ServiceInstance spaced{.name = "n", .id = "i"};
  spaced.payload = " { \"b\" : 1 , \"a\" : 2 } ";
  EXPECT_EQ(read(written(spaced)).payload, R"({"b":1,"a":2})") << "the order stays";
}

// Where Jackson is lenient, other writers may rely on it.
TEST(InstanceFormat, ReadsWhatJacksonReads) {
  EXPECT_EQ(read(with(R"("port":"80")")).port, 80);
  EXPECT_EQ(read(with(R"("port":80.7)")).port, 80);
  EXPECT_EQ(read(with(R"("port":-0.7)")).port, 0);
  EXPECT_EQ(read(with(R"("registrationTimeUTC":"7")")).registered.time_since_epoch().count(), 7);
  EXPECT_EQ(read(with(R"("serviceType":null)")).type, ServiceType::dynamic);
  EXPECT_EQ(read(R"({"id":"i"})").name, "");
  EXPECT_EQ(read(R"({"id":7,"name":true})").id, "7");
  EXPECT_EQ(read(with(R"("uriSpec":{})")).uri_spec, UriSpec{});
}

// V49: every one of these is told apart from an instance, and none throws.
TEST(InstanceFormat, MalformedOnesAreRefused) {
  for (const std::string text : {"", " ", "null", "7", "[]", "\"x\"", "{", "{}", "{\"name\":\"n\"}", "{\"id\":\"\"}",
                                 "{\"id\":null}", "{\"id\":[]}", "{\"id\":\"i\"} x", "{'id':'i'}", "\xff\xfe{}",
                                 "{\"id\":\"\xc3\x28\"}", "{\"id\":\"\\ud800\"}", "{\"id\":\"i\",\"port\":1e999}"})
    EXPECT_FALSE(read_instance(text).instance) << text;
  for (const char* keys :
       {R"("port":2147483648)", R"("port":-2147483649)", R"("port":1e30)", R"("port":{})", R"("port":"x")",
        R"("port":true)", R"("sslPort":"")", R"("registrationTimeUTC":9223372036854775808)",
        R"("registrationTimeUTC":1e19)", R"("serviceType":"FOO")", R"("serviceType":[])", R"("enabled":"yes")",
        R"("uriSpec":[])", R"("uriSpec":{"parts":{}})", R"("uriSpec":{"parts":[1]})", R"("address":{})",
        R"("uriSpec":{"parts":[{"variable":1}]})"}) {
    const detail::ReadInstance found = read_instance(with(keys));
    EXPECT_FALSE(found.instance) << keys;
    EXPECT_NE(found.defect, "") << keys;
  }
  EXPECT_EQ(read_instance("").defect, "it is empty");
  EXPECT_EQ(read_instance("{\"id\":\"i\",}").defect, "it is no JSON text, from byte 11 on");
}

TEST(InstanceFormat, DepthAndSizeAreBounded) {
  EXPECT_TRUE(read_instance(with("\"payload\":" + nested(detail::max_instance_depth - 1))).instance);
  EXPECT_FALSE(read_instance(with("\"payload\":" + nested(detail::max_instance_depth))).instance);
  EXPECT_FALSE(read_instance(with("\"x\":" + nested(500'000))).instance);
  EXPECT_FALSE(read_instance(std::string(1'000'000, '[')).instance);
  const std::string large(detail::max_instance_bytes, 'x');
  EXPECT_FALSE(read_instance(with("\"address\":\"" + large + "\"")).instance);

  ServiceInstance instance{.name = "n", .id = "i"};
  instance.payload = nested(detail::max_instance_depth - 1);
  EXPECT_TRUE(write_instance(instance).bytes);
  for (const std::string& payload : {nested(detail::max_instance_depth), nested(500'000), '"' + large + '"'}) {
    instance.payload = payload;
    EXPECT_FALSE(write_instance(instance).bytes);
  }
}

// The time that an object takes grows with the square of its keys, and the bytes are foreign.
TEST(InstanceFormat, WidthIsBounded) {
  std::string keys = "{";
  std::string objects = "[";
  const int width = testkit::sanitized ? 6'000 : 60'000;
  for (int i = 0; i < width; ++i) {
    keys += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
    objects += i == 0 ? "{}" : ",{}";
  }
  keys += "}";
  objects += "]";
  const std::string top = keys.substr(1, keys.size() - 2);
  for (const std::string& text : {with("\"payload\":" + keys), with("\"payload\":" + objects), with(top)}) {
    ASSERT_LT(text.size(), detail::max_instance_bytes);
    const detail::ReadInstance found = read_instance(text);
    EXPECT_FALSE(found.instance);
    EXPECT_EQ(found.defect, "it has more than 4096 keys and values");
  }
  ServiceInstance instance{.name = "n", .id = "i"};
  for (const std::string& payload : {keys, objects}) {
    instance.payload = payload;
    EXPECT_TRUE(write_instance(instance).too_large);
  }
  std::string many = "[0";
  for (int i = 0; i < 4'000; ++i)
    many += ",0";
  instance.payload = many + "]";
  EXPECT_EQ(read(written(instance)).payload, instance.payload);
}

TEST(InstanceFormat, WhatCannotBeWrittenIsRefused) {
  ServiceInstance instance{.name = "n", .id = "i"};
  for (const char* payload : {"text", "{", "[1,]", "\"\xff\"", "1 2"}) {
    instance.payload = payload;
    EXPECT_FALSE(write_instance(instance).bytes) << payload;
  }
  instance.payload.clear();
  for (const char* unknown : {"x", "[]", R"({"name":"other"})", R"({"enabled":false})"}) {
    instance.unknown = unknown;
    EXPECT_FALSE(write_instance(instance).bytes) << unknown;
  }
  instance.unknown.clear();
  instance.address = "\xc3\x28";
  EXPECT_EQ(write_instance(instance).defect, "a text of the instance is not UTF-8");
}

// Whatever becomes of an instance on its way, reading it ends with an instance or with a defect.
TEST(InstanceFormat, DamagedOnesAreReadOrRefused) {
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 5'000; ++i) {
    std::string text = curators_full;
    for (unsigned damage = 0; damage <= random() % 3; ++damage) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text.erase(at, random() % 8); break;
        default: text.insert(at, text.substr(random() % text.size(), random() % 8)); break;
      }
    }
    const detail::ReadInstance found = read_instance(text);
    if (!found.instance) {
      ++refused;
      EXPECT_NE(found.defect, "");
      continue;
    }
    const detail::WrittenInstance again = write_instance(*found.instance);
    ASSERT_TRUE(again.bytes) << text << ": " << again.defect;
    EXPECT_EQ(read(*again.bytes), *found.instance) << text;
  }
  EXPECT_GT(refused, 250);
}

TEST(UriSpec, IsParsedAndBuilt) {
  using Parts = std::vector<UriPart>;
  EXPECT_EQ(UriSpec::parse("").parts, Parts{});
  EXPECT_EQ(UriSpec::parse("{scheme}://{address}:{port}/x").parts,
            (Parts{{"scheme", true}, {"://", false}, {"address", true}, {":", false}, {"port", true}, {"/x", false}}));
  EXPECT_EQ(UriSpec::parse("a{b{c}d}e{").parts, (Parts{{"a{b", false}, {"c", true}, {"d}e{", false}}));
  EXPECT_EQ(UriSpec::parse("{}x").parts, (Parts{{"x", false}}));
  ServiceInstance instance{.name = "n", .id = "i", .address = "host", .port = 80};
  EXPECT_EQ(instance.uri(), "");
  instance.uri_spec = UriSpec::parse("{scheme}://{address}:{port}/{name}/{id}/{ssl-port}{service-type}{none}");
  EXPECT_EQ(instance.uri(), "http://host:80/n/i/dynamic");
  instance.port.reset();
  instance.ssl_port = 443;
  instance.type = ServiceType::fixed;
  EXPECT_EQ(instance.uri(), "https://host:443/n/i/443static");
  // Curator's escapes, and its blanks.
  EXPECT_EQ(UriSpec::parse("{ id\t}{[}{ ] } x ").parts,
            (Parts{{"id", true}, {"[", true}, {"]", true}, {" x ", false}}));
  instance.uri_spec = UriSpec::parse("{[}{ id }{]}");
  EXPECT_EQ(instance.uri(), "{i}");
}

}  // namespace
}  // namespace zkrecipes
