#include "server/load_report.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "google/protobuf/io/coded_stream.h"
#include "tests/server/fake_time.h"

namespace attnd::server {
namespace {

// The doubles of a report by field number, and the cost of the call.
std::map<int, double> Read(const std::string& report) {
  google::protobuf::io::CodedInputStream in(
      reinterpret_cast<const uint8_t*>(report.data()),
      static_cast<int>(report.size()));
  std::map<int, double> fields;
  for (uint32_t tag = in.ReadTag(); tag != 0; tag = in.ReadTag()) {
    if ((tag & 7) == 1) {
      uint64_t bits = 0;
      EXPECT_TRUE(in.ReadLittleEndian64(&bits));
      std::memcpy(&fields[static_cast<int>(tag >> 3)], &bits, sizeof(bits));
      continue;
    }
    uint32_t size = 0;
    std::string entry;
    EXPECT_EQ(tag & 7, 2u);
    EXPECT_TRUE(in.ReadVarint32(&size));
    EXPECT_TRUE(in.ReadString(&entry, static_cast<int>(size)));
    // {1: "worker_seconds", 2: double}
    EXPECT_EQ(entry.substr(0, 16), std::string("\x0a\x0eworker_seconds"));
    EXPECT_EQ(entry.size(), 16u + 9u);
    std::memcpy(&fields[static_cast<int>(tag >> 3)], entry.data() + 17, 8);
  }
  return fields;
}

TEST(LoadReport, TellsCostRatesAndUtilization) {
  attnd::testing::FakeTime time;
  const auto executor = *Executor::Create({.workers = 1, .time = &time});
  LoadReport report(*executor, 1);
  auto fields = Read(report.CallEnded(true, 0.25, time.Now()));
  EXPECT_EQ(fields[4], 0.25);
  EXPECT_EQ(fields[9], 0);
  for (int i = 0; i < 9; ++i) report.CallEnded(i % 3 != 0, 0, time.Now());
  time.Advance(1);
  fields = Read(report.CallEnded(true, 0.5, time.Now()));
  EXPECT_EQ(fields[4], 0.5);
  EXPECT_DOUBLE_EQ(fields[6], 10) << "calls per second";
  EXPECT_DOUBLE_EQ(fields[7], 3) << "errors per second";
  EXPECT_DOUBLE_EQ(fields[9], 0) << "nobody worked";
}

}  // namespace
}  // namespace attnd::server
