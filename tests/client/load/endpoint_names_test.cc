// One row of a report for each endpoint, however gRPC names it.
#include <gtest/gtest.h>

#include "client/load/channels.h"

namespace attnd::client {
namespace {

TEST(EndpointNames, CallsThatNeverGotThereAreCountedWithTheirEndpoint) {
  EndpointNames names;
  EXPECT_EQ(names.NumberOf(""), -1);
  EXPECT_EQ(names.NumberOf("ipv4:127.0.0.1:50051"), 0);
  EXPECT_EQ(names.NumberOf("ipv6:[::1]:50051"), 1);
  EXPECT_EQ(names.NumberOf("127.0.0.1:50051"), 0);
  EXPECT_EQ(names.NumberOf("[::1]:50051"), 1);
  EXPECT_EQ(names.Name(0), "127.0.0.1:50051");
  EXPECT_EQ(names.Name(1), "[::1]:50051");
}

}  // namespace
}  // namespace attnd::client
