#include "server/violations.h"

#include <gtest/gtest.h>

#include <string>

namespace attnd::server {
namespace {

TEST(Violations, ReportsOnOneFieldAreCounted) {
  Violations violations;
  violations.Add("b", "first");
  violations.Add("a", "other");
  violations.Add("b", "second", 3);
  ASSERT_EQ(violations.list().size(), 2u);
  EXPECT_EQ(violations.list()[0].field, "b");
  EXPECT_EQ(violations.list()[0].description, "first");
  EXPECT_EQ(violations.list()[0].count, 4);
  EXPECT_EQ(violations.list()[1].field, "a");
  EXPECT_EQ(violations.list()[1].count, 1);
}

TEST(Violations, KnowsItsFieldsAndEntriesOfLists) {
  Violations violations;
  violations.Add("encodings[1].biases[0].w[2]", "bad");
  violations.Append({.field = "encodings[10].name", .description = "bad"});
  EXPECT_TRUE(violations.Has("encodings[10].name"));
  EXPECT_FALSE(violations.Has("encodings[10]"));
  EXPECT_TRUE(violations.HasEntry("encodings[1]."));
  EXPECT_FALSE(violations.HasEntry("encodings[10]."));
  EXPECT_FALSE(violations.HasEntry("encodings[2]."));
}

}  // namespace
}  // namespace attnd::server
