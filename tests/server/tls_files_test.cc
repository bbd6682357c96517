#include "server/tls_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/server/tls_kinds.h"

namespace attnd::server {
namespace {

namespace fs = std::filesystem;
using ::attnd::testing::TlsKind;
using ::attnd::testing::TlsKinds;

class TlsFilesTest : public ::testing::Test {
 protected:
  TlsFilesTest()
      : folder_(fs::path(::testing::TempDir()) /
                absl::StrCat("attnd_tls_files_", getpid())) {
    fs::create_directories(folder_);
  }
  ~TlsFilesTest() override { fs::remove_all(folder_); }

  v1::Tls Written(const TlsKind& kind) const {
    v1::Tls tls;
    tls.set_certificate_file(Write("FILE.cert", kind.certificates));
    tls.set_key_file(Write("FILE.key", kind.key));
    if (!kind.authorities.empty()) {
      tls.set_client_ca_file(Write("FILE.ca", kind.authorities));
    }
    return tls;
  }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  // With FILE for every path.
  std::string Message(const absl::Status& status, const v1::Tls& tls) const {
    return absl::StrReplaceAll(status.message(),
                               {{tls.certificate_file(), "FILE"},
                                {tls.key_file(), "FILE"},
                                {(folder_ / "FILE.ca").string(), "FILE"}});
  }

  const fs::path folder_;
};

// integration/tls_kinds_test.cc has gRPC's own word on them.
TEST_F(TlsFilesTest, KindsThatGrpcServesAreGoodAndOthersAreNamed) {
  for (const TlsKind& kind : TlsKinds()) {
    const v1::Tls tls = Written(kind);
    const auto files = ReadTlsFiles(tls);
    EXPECT_EQ(Message(files.status(), tls),
              kind.fault.empty() ? "" : "tls." + kind.fault)
        << kind.name;
    if (!files.ok()) continue;
    EXPECT_EQ(files->certificates, kind.certificates);
    EXPECT_EQ(files->key, kind.key);
    EXPECT_EQ(files->authorities, kind.authorities);
  }
}

TEST_F(TlsFilesTest, MissingFilesAreNamed) {
  const TlsKind kind = TlsKinds()[0];
  v1::Tls tls = Written(kind);
  tls.set_client_ca_file(folder_ / "FILE.ca");
  EXPECT_EQ(Message(ReadTlsFiles(tls).status(), tls),
            "tls.client_ca_file: FILE: cannot be read");
  fs::remove(tls.key_file());
  EXPECT_EQ(Message(ReadTlsFiles(tls).status(), tls),
            "tls.key_file: FILE: cannot be read");
  fs::remove(tls.certificate_file());
  EXPECT_EQ(Message(ReadTlsFiles(tls).status(), tls),
            "tls.certificate_file: FILE: cannot be read");
}

}  // namespace
}  // namespace attnd::server
