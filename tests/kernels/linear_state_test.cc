// Carried states of the linear kind: streams in pieces, merged segments.
#include "kernels/linear_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/linear.h"
#include "tests/kernels/linear_answer.h"

namespace attnd::testing {
namespace {

using Options = LinearOptions;
constexpr int64_t kSecond = 1'000'000'000;

// "" when both are equal within kLinearCarryError of the sizes.
std::string SameOutput(const std::vector<float>& a, const std::vector<float>& b,
                       const std::vector<double>& size) {
  for (size_t i = 0; i < a.size(); ++i) {
    const double bound = kLinearCarryError * size[i];
    if (std::abs(double{a[i]} - double{b[i]}) <= bound) continue;
    return absl::StrCat("element ", i, ": ", a[i], " and ", b[i], ", size ",
                        size[i]);
  }
  return "";
}

// First row of the pieces: not between rows of one time.
std::vector<int64_t> Cuts(const ProblemSpec& spec, int64_t every) {
  std::vector<int64_t> cuts = {0};
  for (int64_t i = 1; i < spec.keys; ++i) {
    if (i - cuts.back() >= every && spec.key_ticks[i] > spec.key_ticks[i - 1]) {
      cuts.push_back(i);
    }
  }
  cuts.push_back(spec.keys);
  return cuts;
}

// The stream piece by piece, each with the state of the one before.
LinearAnswer InPieces(const LinearCase& which, int64_t every) {
  LinearAnswer whole;
  const ProblemSpec& spec = which.spec;
  whole.output.resize(spec.query_heads * spec.queries * spec.value_dim);
  LinearState state;
  const std::vector<int64_t> cuts = Cuts(spec, every);
  for (size_t c = 0; c + 1 < cuts.size(); ++c) {
    const LinearCase piece{Piece(spec, cuts[c], cuts[c + 1]), which.options};
    auto answer = RunLinearCase(piece, c == 0 ? nullptr : &state, true);
    if (!answer.ok()) {
      ADD_FAILURE() << answer.status();
      return whole;
    }
    state = std::move(answer->state);
    const int64_t rows = cuts[c + 1] - cuts[c];
    for (int64_t h = 0; h < spec.query_heads; ++h) {
      std::copy_n(
          answer->output.begin() + h * rows * spec.value_dim,
          rows * spec.value_dim,
          whole.output.begin() + (h * spec.queries + cuts[c]) * spec.value_dim);
    }
  }
  whole.state = std::move(state);
  return whole;
}

std::vector<Options> AllOptions() {
  return {{},
          {.normaliser = Options::Normaliser::kSum,
           .feature_map = Options::FeatureMap::kSoftplus},
          {.input_rule = Options::InputRule::kZeroOrderHold},
          {.input_rule = Options::InputRule::kTrapezoid}};
}

TEST(LinearState, AStreamMayBeCutAnywhere) {
  for (const LinearFamily& family : LinearFamilies()) {
    for (const Options& options : AllOptions()) {
      // The oracle integrates holds, which takes its time.
      const bool held = options.input_rule != Options::InputRule::kEvent;
      if (held && (family.name == "jordan 3" || family.name == "defective")) {
        continue;
      }
      const int64_t rows = held ? 40 : 300;
      LinearCase which{LinearSpec(family, 21, rows, rows), options};
      if (held) ShortenTimes(which.spec, 2000);
      const auto one = RunLinearCase(which, nullptr, true);
      ASSERT_TRUE(one.ok()) << one.status();
      const std::vector<double> size = ReferenceOf(which).size;
      for (const int64_t every : {1, 23, 150}) {
        const LinearAnswer pieces = InPieces(which, every);
        EXPECT_EQ(SameOutput(one->output, pieces.output, size), "")
            << family.name << " in pieces of " << every << ", rule "
            << static_cast<int>(options.input_rule);
        EXPECT_EQ(one->state.keys, pieces.state.keys);
        EXPECT_EQ(one->state.reference_ticks, pieces.state.reference_ticks);
      }
    }
  }
}

TEST(LinearState, RetNetCarriesItsDecays) {
  ProblemSpec spec = LinearSpec(LinearFamilies()[0], 22, 300, 300);
  EncodingSpec retnet;
  retnet.blocks = {
      DampedRotationBlock{.frequencies = {1, 0.5, 0.1, 0.01, 1, 2, 3, 0.001},
                          .rates = std::vector<double>(8, 0.02)}};
  retnet.unit_ns = kSecond;
  spec.encoding = retnet;
  const LinearCase which{spec, {.normaliser = Options::Normaliser::kRetNet}};
  const auto one = RunLinearCase(which);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(SameOutput(one->output, InPieces(which, 11).output,
                       ReferenceOf(which).size),
            "");
}

// S(E) = sum A(E - s) k v^T is what unit vectors read at time E.
TEST(LinearState, IsTheSumThatItsHeaderSays) {
  for (const LinearFamily& family : LinearFamilies()) {
    ProblemSpec spec = LinearSpec(family, 23, 100, 100);
    const auto answer = RunLinearCase({spec, {}}, nullptr, true);
    ASSERT_TRUE(answer.ok()) << answer.status();
    ProblemSpec reading = spec;
    reading.query_heads = 1;
    reading.queries = spec.dim;
    reading.query.assign(spec.dim * spec.dim, 0);
    for (int64_t c = 0; c < spec.dim; ++c) {
      reading.query[c * spec.dim + c] = 1;
    }
    reading.query_ticks.assign(spec.dim, spec.key_ticks.back());
    if (family.clock) {
      reading.query_clock.assign(spec.dim, spec.key_clock.back());
    }
    reading.scale = 1;
    const LinearReferenceAnswer expected = ReferenceOf({reading, {}});
    for (size_t i = 0; i < expected.output.size(); ++i) {
      EXPECT_NEAR(answer->state.sums[i], expected.output[i],
                  kLinearError * expected.size[i] + 1e-12)
          << family.name << " element " << i;
    }
  }
}

// Rows of `which` from `first` on, with keys of their own segment only.
LinearState StateOf(const LinearCase& which, int64_t first, int64_t last) {
  return RunLinearCase({Piece(which.spec, first, last), which.options}, nullptr,
                       true)
      ->state;
}

double Distance(const LinearState& a, const LinearState& b) {
  double worst = 0, largest = 0;
  for (size_t i = 0; i < a.sums.size(); ++i) {
    worst = std::max(worst, std::abs(a.sums[i] - b.sums[i]));
    largest = std::max(largest, std::abs(a.sums[i]));
  }
  return worst / largest;
}

TEST(LinearState, SegmentsMergeToTheStateOfTheWhole) {
  for (const LinearFamily& family : LinearFamilies()) {
    for (const Options& options :
         {Options{}, Options{.normaliser = Options::Normaliser::kSum,
                     .feature_map = Options::FeatureMap::kRelu}}) {
      const LinearCase which{LinearSpec(family, 24, 300, 300), options};
      const auto owned = OwnedProblem::Build(which.spec);
      const Encoder* encoder = owned->problem().encoder.get();
      const LinearState a = StateOf(which, 0, 90), b = StateOf(which, 90, 110),
                        c = StateOf(which, 110, 300);
      const auto ab_c = MergeLinearStates(
          encoder, MergeLinearStates(encoder, a, b).value(), c);
      const auto a_bc = MergeLinearStates(
          encoder, a, MergeLinearStates(encoder, b, c).value());
      const auto turned = MergeLinearStates(
          encoder, c, MergeLinearStates(encoder, b, a).value());
      ASSERT_TRUE(ab_c.ok()) << ab_c.status();
      const LinearState whole = StateOf(which, 0, 300);
      EXPECT_LT(Distance(whole, *ab_c), kLinearCarryError) << family.name;
      EXPECT_LT(Distance(*ab_c, *a_bc), 1e-12) << family.name;
      EXPECT_LT(Distance(*ab_c, *turned), 1e-12) << family.name;
      EXPECT_EQ(ab_c->keys, whole.keys);
      EXPECT_EQ(ab_c->reference_ticks, whole.reference_ticks);
    }
  }
}

// What a segment missed of the one before is one query-only step.
TEST(LinearState, ASegmentsOutputIsCompletedByTheStateBeforeIt) {
  const LinearCase which{LinearSpec(LinearFamilies()[4], 25, 200, 200), {}};
  const auto whole = RunLinearCase(which);
  const LinearState before = StateOf(which, 0, 120);
  const LinearCase segment{Piece(which.spec, 120, 200), {}};
  const auto alone = RunLinearCase(segment);
  LinearCase reading = segment;
  reading.spec.keys = 0;
  reading.spec.key.clear();
  reading.spec.value.clear();
  reading.spec.key_ticks.clear();
  const auto missing = RunLinearCase(reading, &before);
  ASSERT_TRUE(missing.ok()) << missing.status();
  const std::vector<double> size = ReferenceOf(which).size;
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t i = 0; i < 80 * 8; ++i) {
      const int64_t at = h * 200 * 8 + 120 * 8 + i;
      EXPECT_NEAR(
          alone->output[h * 80 * 8 + i] + missing->output[h * 80 * 8 + i],
          whole->output[at], kLinearError * size[at]);
    }
  }
}

TEST(LinearState, AnEmptyPieceChangesNothing) {
  const LinearCase which{LinearSpec(LinearFamilies()[4], 26, 60, 60), {}};
  const LinearState before = StateOf(which, 0, 60);
  LinearCase empty{Piece(which.spec, 0, 0), {}};
  const auto after = RunLinearCase(empty, &before, true);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->state.keys, before.keys);
  EXPECT_EQ(after->state.reference_ticks, before.reference_ticks);
  EXPECT_LT(Distance(before, after->state), 1e-12);
}

TEST(LinearState, PositionsContinueFromPieceToPiece) {
  LinearCase which{LinearSpec(LinearFamilies()[4], 27, 200, 200), {}};
  which.spec.encoding->unit_ns = 0;
  which.spec.ratio = {};
  const ProblemSpec timed = which.spec;
  which.spec.kind = TimeAxis::Kind::kPositions;
  const auto one = RunLinearCase(which);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(SameOutput(one->output, InPieces(which, 30).output,
                       ReferenceOf(which).size),
            "");
}

TEST(LinearState, RowsBeforeItAreRefused) {
  const LinearCase which{LinearSpec(LinearFamilies()[4], 28, 60, 60), {}};
  const LinearState late = StateOf(which, 30, 60);
  const LinearCase early{Piece(which.spec, 0, 30), {}};
  const auto answer = RunLinearCase(early, &late);
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(answer.status().message()),
              ::testing::HasSubstr("before the reference time"));
}

TEST(LinearState, AnotherShapeIsRefused) {
  const LinearCase which{LinearSpec(LinearFamilies()[4], 29, 60, 60), {}};
  LinearState state = StateOf(which, 0, 30);
  state.shape.value_dim = 7;
  const LinearCase piece{Piece(which.spec, 30, 60), {}};
  EXPECT_EQ(RunLinearCase(piece, &state).status().code(),
            absl::StatusCode::kInvalidArgument);
  state = StateOf(which, 0, 30);
  state.sums.pop_back();
  EXPECT_EQ(RunLinearCase(piece, &state).status().code(),
            absl::StatusCode::kInvalidArgument);
  state = StateOf(which, 0, 30);
  state.keys[0] = -1;
  EXPECT_EQ(RunLinearCase(piece, &state).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(LinearState, BytesAreThoseOfItsArrays) {
  const LinearCase which{LinearSpec(LinearFamilies()[12], 30, 60, 60), {}};
  const LinearState s = StateOf(which, 0, 60);
  const auto bytes = [](const auto& values) {
    return static_cast<int64_t>(values.size() * sizeof(values[0]));
  };
  EXPECT_EQ(s.shape.bytes(),
            bytes(s.keys) + bytes(s.reference_ticks) + bytes(s.reference_real) +
                bytes(s.reference_clock) + bytes(s.sums) + bytes(s.normaliser) +
                bytes(s.decay_sum) + bytes(s.held_key) + bytes(s.held_value) +
                bytes(s.held_gap));
}

}  // namespace
}  // namespace attnd::testing
