#include "server/trace_context.h"

#include <gtest/gtest.h>

#include <string>

namespace attnd::server {
namespace {

constexpr char kGood[] =
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceContext, FindsTheIdOfAWellFormedHeader) {
  EXPECT_EQ(TraceIdOf(kGood), "4bf92f3577b34da6a3ce929d0e0e4736");
  // A later version with a field more.
  EXPECT_EQ(TraceIdOf("cc" + std::string(kGood + 2) + "-what"),
            "4bf92f3577b34da6a3ce929d0e0e4736");
}

TEST(TraceContext, EverythingElseIsNone) {
  std::string text = kGood;
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_EQ(TraceIdOf(text.substr(0, i)), "") << i;
    std::string other = text;
    other[i] = 'G';
    EXPECT_EQ(TraceIdOf(other), "") << i;
  }
  EXPECT_EQ(TraceIdOf(text + "-01"), "") << "version 00 has four fields";
  EXPECT_EQ(TraceIdOf("ff" + text.substr(2)), "");
  EXPECT_EQ(TraceIdOf("01" + text.substr(2) + "-" + std::string(200, 'x')),
            text.substr(3, 32));
  EXPECT_EQ(TraceIdOf("01" + text.substr(2) + "-" + std::string(201, 'x')), "");
  EXPECT_EQ(TraceIdOf("00-" + std::string(32, '0') + text.substr(35)), "");
  EXPECT_EQ(TraceIdOf(text.substr(0, 36) + std::string(16, '0') + "-01"), "");
}

}  // namespace
}  // namespace attnd::server
