#include "server/block_reader.h"

#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/unused_fields.h"

namespace attnd::server {
namespace {

template <typename T, typename Field>
std::vector<T> List(const Field& field) {
  return {field.begin(), field.end()};
}

std::optional<BlockKind> ReadRotation(const v1::Rotation& in,
                                      const std::string& path,
                                      Violations& violations) {
  RotationBlock block;
  block.layout = ReadLayout(in.pair_layout(), path, violations);
  const int given = (in.frequencies_size() > 0) + (in.periods_size() > 0) +
                    (in.frequency_vectors_size() > 0);
  if (given != 1) {
    violations.Add(path,
                   "expected exactly one of frequencies, periods and "
                   "frequency_vectors");
    return std::nullopt;
  }
  block.frequencies = List<double>(in.frequencies());
  for (int i = 0; i < in.periods_size(); ++i) {
    const double period = in.periods(i);
    if (period == 0 || !std::isfinite(period)) {
      violations.Add(absl::StrCat(path, ".periods[", i, "]"),
                     absl::StrCat(period, ", expected finite and not 0"));
    }
    block.frequencies.push_back(2 * std::numbers::pi / period);
  }
  if (in.frequency_vectors_size() > 0) {
    block.frequencies = List<double>(in.frequency_vectors());
    block.coordinates = in.coordinates();
    if (in.coordinates() < 1 ||
        in.frequency_vectors_size() % in.coordinates() != 0) {
      violations.Add(
          path + ".coordinates",
          absl::StrCat(in.coordinates(),
                       ", expected >= 1 and a divisor of the ",
                       in.frequency_vectors_size(), " frequency_vectors"));
      return std::nullopt;
    }
  } else if (in.coordinates() != 0 && in.coordinates() != 1) {
    violations.Add(path + ".coordinates",
                   absl::StrCat(in.coordinates(),
                                ", but frequencies and periods turn along one: "
                                "leave it out, or write frequency_vectors"));
  }
  return block;
}

BlockKind ReadComplexJordan(const v1::ComplexJordan& in,
                            const std::string& path, Violations& violations) {
  ComplexJordanBlock block;
  block.size = in.size();
  block.frequencies = List<double>(in.frequencies());
  block.rates = List<double>(in.rates());
  block.eta = in.has_eta() ? in.eta() : 1;
  if (in.variant() == v1::ComplexJordan::VARIANT_SCALED) {
    if (!(in.length() > 0) || !std::isfinite(in.length())) {
      violations.Add(path + ".length",
                     absl::StrCat(in.length(), ", expected finite and > 0"));
      return block;
    }
    for (double& rate : block.rates) rate /= in.length();
    block.eta /= in.length();
  } else if (in.length() != 0) {
    violations.Add(path + ".length",
                   "is read with variant: scaled alone; add that, or leave it "
                   "out");
  }
  return block;
}

std::optional<BlockKind> ReadKind(const v1::Block& in, const std::string& path,
                                  Violations& violations) {
  switch (in.kind_case()) {
    case v1::Block::kIdentity:
      return IdentityBlock{.width = in.identity().width()};
    case v1::Block::kRotary:
      return ReadRotary(in.rotary(), path + ".rotary", violations);
    case v1::Block::kRotation:
      return ReadRotation(in.rotation(), path + ".rotation", violations);
    case v1::Block::kComponentDecay:
      return DecayBlock{.rates = List<double>(in.component_decay().rates()),
                        .width = in.component_decay().width()};
    case v1::Block::kDampedRotation:
      return DampedRotationBlock{
          .frequencies = List<double>(in.damped_rotation().frequencies()),
          .rates = List<double>(in.damped_rotation().rates()),
          .layout = ReadLayout(in.damped_rotation().pair_layout(),
                               path + ".damped_rotation", violations)};
    case v1::Block::kRealJordan:
      return RealJordanBlock{
          .size = in.real_jordan().size(),
          .rates = List<double>(in.real_jordan().rates()),
          .tau = in.real_jordan().has_tau() ? in.real_jordan().tau() : 1,
          .chains = in.real_jordan().chains()};
    case v1::Block::kComplexJordan:
      return ReadComplexJordan(in.complex_jordan(), path + ".complex_jordan",
                               violations);
    case v1::Block::kDense:
      return DenseMatrixBlock{.dim = in.dense().dim(),
                              .matrix = List<double>(in.dense().matrix())};
    case v1::Block::kSkewRank2:
      return SkewRank2Block{.a = List<double>(in.skew_rank2().a()),
                            .b = List<double>(in.skew_rank2().b()),
                            .frequency = in.skew_rank2().has_frequency()
                                             ? in.skew_rank2().frequency()
                                             : 1};
    case v1::Block::KIND_NOT_SET:
      break;
  }
  AddNoKind(in, "block", path, violations);
  return std::nullopt;
}

}  // namespace

void AddNoKind(const google::protobuf::Message& in, absl::string_view what,
               const std::string& path, Violations& violations) {
  const auto* choice = in.GetDescriptor()->FindOneofByName("kind");
  std::vector<std::string> kinds;
  for (int i = 0; i < choice->field_count(); ++i) {
    kinds.push_back(choice->field(i)->name());
  }
  violations.Add(path,
                 absl::StrCat("names no kind of ", what, ": expected one of ",
                              absl::StrJoin(kinds, ", "),
                              ", with its parameters indented below it, "
                              "or {} for none"));
}

PairLayout ReadLayout(v1::PairLayout in, const std::string& path,
                      Violations& violations) {
  if (in == v1::PAIR_LAYOUT_INTERLEAVED) return PairLayout::kInterleaved;
  if (in != v1::PAIR_LAYOUT_HALF_SPLIT) {
    violations.Add(path + ".pair_layout",
                   "required: half_split (GPT-NeoX, Hugging Face) or "
                   "interleaved (RoFormer, GPT-J); they give different scores");
  }
  return PairLayout::kHalfSplit;
}

std::optional<Block> ReadBlock(const v1::Block& in, const std::string& path,
                               Violations& violations) {
  Block block;
  CheckDrive(in, path, violations);
  block.drive = {.coordinate = in.coordinate(),
                 .clock = in.clock() == v1::CLOCK_REQUEST,
                 .clock_channel = in.clock_channel()};
  block.averaged = in.averaged();
  std::optional<BlockKind> kind = ReadKind(in, path, violations);
  if (!kind) return std::nullopt;
  block.kind = *std::move(kind);
  return block;
}

}  // namespace attnd::server
