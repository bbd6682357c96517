#include "kernels/block_checks.h"

#include <cmath>
#include <numeric>
#include <variant>

#include "absl/strings/str_cat.h"
#include "kernels/direct_sum.h"
#include "kernels/field_checks.h"
#include "kernels/rotary_checks.h"

namespace attnd {
namespace {

constexpr int kMaxDenseDim = 128;

struct Names {
  const char* operator()(const IdentityBlock&) { return "identity"; }
  const char* operator()(const RotaryBlock&) { return "rotary"; }
  const char* operator()(const RotationBlock&) { return "rotation"; }
  const char* operator()(const DecayBlock&) { return "component_decay"; }
  const char* operator()(const DampedRotationBlock&) {
    return "damped_rotation";
  }
  const char* operator()(const RealJordanBlock&) { return "real_jordan"; }
  const char* operator()(const ComplexJordanBlock&) { return "complex_jordan"; }
  const char* operator()(const DenseMatrixBlock&) { return "dense"; }
  const char* operator()(const SkewRank2Block&) { return "skew_rank2"; }
  const char* operator()(const LieReBlock&) { return "liere"; }
};

// One per item, or one for all.
absl::Status CheckOneOrEach(const std::string& path, size_t count, size_t items,
                            const char* of_what) {
  if (count == 1 || count == items) return absl::OkStatus();
  return Refuse(path, absl::StrCat(count, " entries"),
                absl::StrCat("1 or ", items, " (", of_what, ")"));
}

absl::Status CheckOrder(const std::string& path, int size) {
  if (size >= 2 && size <= kMaxJets) return absl::OkStatus();
  return Refuse(path, size, "2, 3 or 4");
}

absl::Status Check(const RotaryBlock& block, const std::string& path) {
  return CheckRotary(block, path);
}

absl::Status Check(const IdentityBlock& block, const std::string& path) {
  if (block.width >= 1) return absl::OkStatus();
  return Refuse(path + ".width", block.width, ">= 1");
}

absl::Status Check(const RotationBlock& block, const std::string& path) {
  const std::string at = path + ".frequencies";
  if (block.coordinates < 1 || block.coordinates > kMaxDrives) {
    return Refuse(path + ".coordinates", block.coordinates,
                  absl::StrCat("1 to ", kMaxDrives));
  }
  absl::Status status =
      FirstRefusal(CheckNotEmpty(at, block.frequencies.size(), "one per plane"),
                   CheckAllFinite(at, block.frequencies));
  if (!status.ok()) return status;
  if (block.frequencies.size() % block.coordinates == 0) {
    return absl::OkStatus();
  }
  return Refuse(at, absl::StrCat(block.frequencies.size(), " entries"),
                absl::StrCat("a multiple of coordinates, ", block.coordinates));
}

absl::Status Check(const DecayBlock& block, const std::string& path) {
  const std::string at = path + ".rates";
  absl::Status status = FirstRefusal(
      CheckNotEmpty(at, block.rates.size(), "one, or one per channel"),
      CheckNoneNegative(at, block.rates));
  if (!status.ok()) return status;
  if (block.width < 0) return Refuse(path + ".width", block.width, ">= 0");
  if (block.width == 0) return absl::OkStatus();
  return CheckOneOrEach(at, block.rates.size(), block.width, "per channel");
}

absl::Status Check(const DampedRotationBlock& block, const std::string& path) {
  return FirstRefusal(CheckNotEmpty(path + ".frequencies",
                                    block.frequencies.size(), "one per plane"),
                      CheckAllFinite(path + ".frequencies", block.frequencies),
                      CheckOneOrEach(path + ".rates", block.rates.size(),
                                     block.frequencies.size(), "per plane"),
                      CheckNoneNegative(path + ".rates", block.rates));
}

absl::Status Check(const RealJordanBlock& block, const std::string& path) {
  absl::Status status =
      FirstRefusal(CheckOrder(path + ".size", block.size),
                   CheckNotEmpty(path + ".rates", block.rates.size(),
                                 "one, or one per chain"),
                   CheckNoneNegative(path + ".rates", block.rates),
                   CheckPositive(path + ".tau", block.tau),
                   CheckPositive(path + ".tau", 1 / block.tau));
  if (!status.ok()) return status;
  if (block.chains < 0) return Refuse(path + ".chains", block.chains, ">= 0");
  if (block.chains == 0) return absl::OkStatus();
  return CheckOneOrEach(path + ".rates", block.rates.size(), block.chains,
                        "per chain");
}

absl::Status Check(const ComplexJordanBlock& block, const std::string& path) {
  return FirstRefusal(CheckOrder(path + ".size", block.size),
                      CheckNotEmpty(path + ".frequencies",
                                    block.frequencies.size(), "one per chain"),
                      CheckAllFinite(path + ".frequencies", block.frequencies),
                      CheckOneOrEach(path + ".rates", block.rates.size(),
                                     block.frequencies.size(), "per chain"),
                      CheckNoneNegative(path + ".rates", block.rates),
                      CheckFinite(path + ".eta", block.eta));
}

absl::Status Check(const DenseMatrixBlock& block, const std::string& path) {
  if (block.dim < 1 || block.dim > kMaxDenseDim) {
    return Refuse(path + ".dim", block.dim,
                  absl::StrCat("1 to ", kMaxDenseDim));
  }
  return FirstRefusal(
      CheckCount(path + ".matrix", block.matrix.size(),
                 static_cast<size_t>(block.dim) * block.dim, "dim * dim"),
      CheckAllFinite(path + ".matrix", block.matrix));
}

absl::Status Check(const SkewRank2Block& block, const std::string& path) {
  return FirstRefusal(
      CheckNotEmpty(path + ".a", block.a.size(), "one entry per channel"),
      CheckCount(path + ".b", block.b.size(), block.a.size(), "as many as a"),
      CheckAllFinite(path + ".a", block.a),
      CheckAllFinite(path + ".b", block.b),
      CheckFinite(path + ".frequency", block.frequency));
}

absl::Status Check(const LieReBlock& block, const std::string& path) {
  if (block.dim < 2 || block.dim > kMaxDenseDim) {
    return Refuse(path + ".tile", block.dim,
                  absl::StrCat("2 to ", kMaxDenseDim));
  }
  if (block.coordinates < 1 || block.coordinates > kMaxDrives) {
    return Refuse(path + ".coordinates", block.coordinates,
                  absl::StrCat("1 to ", kMaxDrives));
  }
  return FirstRefusal(CheckCount(path + ".generators", block.generators.size(),
                                 static_cast<size_t>(block.coordinates) *
                                     block.dim * (block.dim - 1) / 2,
                                 "coordinates * dim (dim - 1) / 2"),
                      CheckAllFinite(path + ".generators", block.generators));
}

absl::Status CheckDrive(const Drive& drive, const std::string& path) {
  const auto check = [&](const char* field, int value) -> absl::Status {
    if (value >= 0 && value < kMaxDrives) return absl::OkStatus();
    return Refuse(path + field, value, absl::StrCat("0 to ", kMaxDrives - 1));
  };
  return FirstRefusal(check(".coordinate", drive.coordinate),
                      check(".clock_channel", drive.clock_channel));
}

}  // namespace

std::string KindName(const Block& block) {
  return std::visit(Names{}, block.kind);
}

absl::Status CheckBlocks(const std::vector<Block>& blocks,
                         const std::string& path) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    const std::string at = absl::StrCat(path, "[", i, "]");
    const std::string kind = at + "." + KindName(blocks[i]);
    absl::Status status = FirstRefusal(
        CheckDrive(blocks[i].drive, at),
        std::visit([&](const auto& block) { return Check(block, kind); },
                   blocks[i].kind));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace attnd
