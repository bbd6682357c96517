#include "server/tenants.h"

#include <gtest/gtest.h>

#include "server/access.h"
#include "server/status.h"

namespace attnd::server {
namespace {

std::shared_ptr<const Settings> Load(const std::string& yaml,
                                     const Settings* before = nullptr) {
  const auto config = ParseConfig(yaml, "a.yaml", Machine{});
  EXPECT_TRUE(config.ok()) << config.status();
  const auto settings = Settings::Make(*config, before);
  EXPECT_TRUE(settings.ok()) << settings.status();
  return *settings;
}

TEST(Tenants, WhoIsNotNamedIsTheDefaultOne) {
  const auto settings = Load("tenants: {tenants: [{name: a, weight: 3}]}");
  const Tenants& tenants = settings->tenants;
  ASSERT_EQ(tenants.list().size(), 2u);
  EXPECT_EQ(tenants.Find("a").name, "a");
  EXPECT_DOUBLE_EQ(tenants.Find("a").share, 0.75);
  EXPECT_EQ(tenants.Find("b").name, "default");
  EXPECT_DOUBLE_EQ(tenants.Find("b").share, 0.25);
  EXPECT_EQ(tenants.metadata_key(), "x-attnd-tenant");
}

TEST(Tenants, NamesKeepTheirIdsOverReloads) {
  const auto first = Load("tenants: {tenants: [{name: a}, {name: b}]}");
  const auto second = Load(
      "tenants: {tenants: [{name: c}, {name: b, weight: 2}]}", first.get());
  const auto third =
      Load("tenants: {tenants: [{name: a}, {name: d}]}", second.get());
  EXPECT_EQ(second->tenants.Find("b").id, first->tenants.Find("b").id);
  EXPECT_EQ(third->tenants.Find("a").id, first->tenants.Find("a").id);
  EXPECT_NE(second->tenants.Find("c").id, first->tenants.Find("a").id);
  EXPECT_NE(third->tenants.Find("d").id, second->tenants.Find("c").id);
  EXPECT_EQ(third->generation, 3);
}

TEST(Tenants, ACertificateCountsMoreThanWhatACallSays) {
  const auto settings = Load("tenants: {tenants: [{name: a}, {name: b}]}");
  EXPECT_EQ(TenantOf(*settings, {.tenant = "a"}).name, "a");
  EXPECT_EQ(TenantOf(*settings, {.identities = {"x", "b"}, .tenant = "a"}).name,
            "b");
  EXPECT_EQ(TenantOf(*settings, {.identities = {"x"}, .tenant = "y"}).name,
            "default");
}

TEST(Tenants, FaultsAreNamed) {
  const auto config = ParseConfig(
      "tenants: {metadata_key: grpc-x, tenants: [{name: a}, {name: a, weight: "
      "-1}, {name: 'b c', quota_worker_seconds: 0}]}",
      "a.yaml", Machine{});
  ASSERT_FALSE(config.ok());
  for (const char* field :
       {"tenants.metadata_key", "tenants[1].name", "tenants[1].weight",
        "tenants[2].name", "tenants[2].quota_worker_seconds"}) {
    EXPECT_NE(config.status().message().find(field), std::string::npos)
        << field << " in " << config.status();
  }
}

constexpr char kAllowList[] = R"(
listeners: [{address: 'h:1', tls: {certificate_file: c, key_file: k, client_ca_file: a}}]
security: {methods: [{method: Attend, identities: [x, y]}, {method: '*', identities: [root]}]}
)";

TEST(Access, IsAnAllowList) {
  const auto open = Load("{}");
  EXPECT_TRUE(CheckAccess(*open, "Attend", {}).ok());
  const auto settings = Load(kAllowList);
  EXPECT_TRUE(CheckAccess(*settings, "Attend", {.identities = {"y"}}).ok());
  EXPECT_TRUE(CheckAccess(*settings, "Attend", {.identities = {"root"}}).ok());
  EXPECT_TRUE(
      CheckAccess(*settings, "Estimate", {.identities = {"root"}}).ok());
  for (const Caller& caller : {Caller{}, Caller{.identities = {"z"}}}) {
    const absl::Status refused = CheckAccess(*settings, "Attend", caller);
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_EQ(ReasonOf(refused), Reason::kForbidden);
  }
  EXPECT_FALSE(CheckAccess(*settings, "Estimate", {.identities = {"y"}}).ok());
}

TEST(Access, AllowListsNeedCertificates) {
  const auto config =
      ParseConfig("security: {methods: [{method: Attend, identities: [x]}]}",
                  "a.yaml", Machine{});
  ASSERT_FALSE(config.ok());
  EXPECT_NE(config.status().message().find("client_ca_file"),
            std::string::npos);
}

}  // namespace
}  // namespace attnd::server
