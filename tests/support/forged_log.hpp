#pragma once

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <zkclient/path.hpp>

#include "tests/support/fault_server.hpp"

namespace testkit {

/// Big-endian, as ZooKeeper's files are.
class LogBytes {
 public:
  LogBytes& number(std::uint64_t value, int size) {
    for (int i = size - 1; i >= 0; --i)
      bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }
  LogBytes& text(std::string_view text) {
    number(text.size(), 4);
    bytes_ += text;
    return *this;
  }
  const std::string& str() const noexcept { return bytes_; }

 private:
  std::string bytes_;
};

inline std::uint32_t adler32(std::string_view bytes) {
  std::uint32_t low = 1;
  std::uint32_t high = 0;
  for (const char byte : bytes) {
    low = (low + static_cast<unsigned char>(byte)) % 65521;
    high = (high + low) % 65521;
  }
  return high << 16 | low;
}

/// Gives a node data and a version that would take it billions of writes: stops the server, appends a write to its
/// transaction log, and starts it again. A client's session survives that.
inline void forge_version(FaultServer& server, const zkclient::Path& path, std::string_view data,
                          std::int32_t version) {
  constexpr std::uint64_t set_data = 5;
  const std::string stats = server.four_letter_word("srvr");
  const std::string label = "Zxid: 0x";
  const std::size_t found = stats.find(label);
  ASSERT_NE(found, std::string::npos) << stats;
  const std::uint64_t zxid = std::stoull(stats.substr(found + label.size()), nullptr, 16) + 1000;
  server.stop();
  LogBytes write;
  write.number(0, 8).number(0, 4).number(zxid, 8).number(1'700'000'000'000, 8).number(set_data, 4);
  write.text(path.str()).text(data).number(static_cast<std::uint32_t>(version), 4);
  LogBytes log;
  log.number(0x5a4b4c47, 4).number(2, 4).number(0, 8);  // "ZKLG", its version, no database id.
  log.number(adler32(write.str()), 8).text(write.str()).number('B', 1);
  char digits[17] = {};
  std::snprintf(digits, sizeof digits, "%llx", static_cast<unsigned long long>(zxid));
  const auto file = server.real().directory() / "data" / "version-2" / (std::string("log.") + digits);
  std::ofstream(file, std::ios::binary) << log.str();
  server.start();
}

}  // namespace testkit
