#include "kernels/clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/golden/golden_file.h"
#include "tests/kernels/problem_builder.h"

namespace attnd {
namespace {

using testing::GoldenRecord;
using ::testing::HasSubstr;

constexpr int64_t kYearNs = 31'557'600'000'000'000;
constexpr double kTwoPi = 6.283185307179586;

// Distance on the circle between a phase word and a phase in turns, radians.
double Apart(uint64_t word, double turns) {
  const double difference = std::ldexp(static_cast<double>(word), -64) - turns;
  return kTwoPi * std::fabs(difference - std::round(difference));
}

TEST(ParseTimeUnit, ReadsNumberAndUnit) {
  const std::vector<std::pair<std::string, int64_t>> good = {
      {"position", 0},
      {"1ns", 1},
      {"1us", 1000},
      {"250 ms", 250'000'000},
      {"1s", 1'000'000'000},
      {"1min", 60'000'000'000},
      {"2h", 7'200'000'000'000},
      {"1d", 86'400'000'000'000},
      {"365.25d", kYearNs},
      {"2w", 1'209'600'000'000'000},
      {"0.5us", 500},
      {".25s", 250'000'000},
      {"1.000000001s", 1'000'000'001},
      {"9223372036854775807ns", INT64_MAX},
      {"106751d", 106751 * int64_t{86'400'000'000'000}},
  };
  for (const auto& [text, ns] : good) {
    const auto got = ParseTimeUnit(text);
    ASSERT_TRUE(got.ok()) << text << ": " << got.status();
    EXPECT_EQ(*got, ns) << text;
  }
}

TEST(ParseTimeUnit, RefusesEverythingElse) {
  for (const char* text : {"",
                           " ",
                           "s",
                           "1",
                           "1.5",
                           "0s",
                           "0.0s",
                           "-1s",
                           "+1s",
                           "1 fortnight",
                           "1S",
                           "1sec",
                           "1e3s",
                           "1..5s",
                           "1.5.s",
                           "0.5ns",
                           "1.0000000001s",
                           "nan s",
                           "inf s",
                           "1s2",
                           "0x1s",
                           "positions",
                           "1,5s",
                           "106752d",
                           "9223372036854775808ns",
                           "18446744073709551617ns",
                           "340282366920938463463374607431768211457ns",
                           "20000w"}) {
    const auto got = ParseTimeUnit(text);
    EXPECT_EQ(got.status().code(), absl::StatusCode::kInvalidArgument)
        << '"' << text << '"';
  }
}

TEST(ParseTimeUnit, RefusalQuotesTheTextAndSaysWhatIsExpected) {
  const std::string message(ParseTimeUnit("3 fortnights").status().message());
  EXPECT_THAT(message, HasSubstr("3 fortnights"));
  EXPECT_THAT(message, HasSubstr("ms"));
}

TEST(TickRatio, IsTickOverUnit) {
  EXPECT_EQ(TickRatio().units_per_tick(), 1);
  EXPECT_EQ((TickRatio{.tick_ns = 1000, .unit_ns = 4000}).units_per_tick(),
            0.25);
}

// The golden file's numbers come from 1400 bits of pi and exact fractions.
struct GoldenPhases {
  double omega;
  TickRatio ratio;
  TurnFrequency frequency;
  const GoldenRecord* record;
};

std::vector<GoldenPhases> ReadPhases() {
  static const auto* records =
      new std::vector<GoldenRecord>(testing::ReadGoldenFile("phases.txt"));
  std::vector<GoldenPhases> all;
  for (const GoldenRecord& r : *records) {
    all.push_back({r.Get("omega").Number(0),
                   {r.Get("tick_ns").Integer(0), r.Get("unit_ns").Integer(0)},
                   {.hi = r.Get("frequency").Word(1),
                    .lo = r.Get("frequency").Word(2),
                    .whole = r.Get("frequency").Integer(0)},
                   &r});
  }
  return all;
}

TEST(MakeTurnFrequency, RoundsTheExactFrequencyTo128Bits) {
  for (const GoldenPhases& golden : ReadPhases()) {
    const TurnFrequency got = MakeTurnFrequency(golden.omega, golden.ratio);
    EXPECT_EQ(got.hi, golden.frequency.hi) << golden.omega;
    EXPECT_EQ(got.lo, golden.frequency.lo) << golden.omega;
    EXPECT_EQ(got.whole, golden.frequency.whole) << golden.omega;
  }
}

TEST(MakeTurnFrequency, NegativeIsTheTwosComplementOfAll192Bits) {
  EXPECT_EQ(MakeTurnFrequency(0, {}), TurnFrequency{});
  EXPECT_EQ(MakeTurnFrequency(-0.0, {}), TurnFrequency{});
  testing::Random random(3);
  for (int i = 0; i < 1000; ++i) {
    const double omega = std::exp(40 * random.Uniform() - 20);
    const TurnFrequency up = MakeTurnFrequency(omega, {});
    const TurnFrequency down = MakeTurnFrequency(-omega, {});
    EXPECT_EQ(up.lo + down.lo, 0u) << omega;
    EXPECT_EQ(up.hi + down.hi + (up.lo != 0), 0u) << omega;
    EXPECT_EQ(up.whole + down.whole + ((up.hi | up.lo) != 0), 0) << omega;
  }
}

TEST(PhaseWord, IsTheExactProductForEveryGoldenLag) {
  for (const GoldenPhases& golden : ReadPhases()) {
    for (const GoldenRecord::Line& line : golden.record->lines()) {
      if (line.key != "phase") continue;
      EXPECT_EQ(PhaseWord(golden.frequency, line.Integer(0)), line.Word(1))
          << golden.omega << " at " << line.Integer(0);
    }
  }
}

TEST(PhaseWord, KeepsTheTruePhaseToAMillionthOverAllOfInt64) {
  for (const GoldenPhases& golden : ReadPhases()) {
    for (const GoldenRecord::Line& line : golden.record->lines()) {
      if (line.key != "phase") continue;
      EXPECT_LE(
          Apart(PhaseWord(golden.frequency, line.Integer(0)), line.Number(2)),
          1e-9)
          << golden.omega << " at " << line.Integer(0);
    }
  }
}

TEST(PhaseWord, IsTheAngleOfEveryDouble) {
  for (double omega = 0.37; omega < 1e308; omega *= 9.73) {
    const double angle = kTwoPi * 0x1p-64 *
                         static_cast<double>(PhaseWord(
                             MakeTurnFrequency(omega, {}), int64_t{1}));
    // The library reduces its argument exactly.
    EXPECT_NEAR(std::cos(angle), std::cos(omega), 1e-13) << omega;
    EXPECT_NEAR(std::sin(angle), std::sin(omega), 1e-13) << omega;
  }
}

TEST(PhaseWord, OneYearPeriodHoldsOver43And300YearsOfNanoseconds) {
  const TurnFrequency year =
      MakeTurnFrequency(kTwoPi, {.tick_ns = 1, .unit_ns = kYearNs});
  EXPECT_LE(Apart(PhaseWord(year, 43 * kYearNs), 0), 1e-6);
  EXPECT_LE(Apart(PhaseWord(year, -43 * kYearNs), 0), 1e-6);
  // 300 years exceed an int64 of nanoseconds, but not the lag of two of them.
  const uint64_t lag =
      PhaseWord(year, 150 * kYearNs) - PhaseWord(year, -150 * kYearNs);
  EXPECT_LE(Apart(lag, 0), 1e-6);
  const uint64_t quarter = PhaseWord(year, 150 * kYearNs + kYearNs / 4) -
                           PhaseWord(year, -150 * kYearNs);
  EXPECT_LE(Apart(quarter, 0.25), 1e-6);
}

// Upper and lower half of F n.
unsigned __int128 Wide(const TurnFrequency& f, int64_t n) {
  return (static_cast<unsigned __int128>(f.hi) << 64 | f.lo) *
         static_cast<unsigned __int128>(static_cast<__int128>(n));
}

TEST(PhaseWord, IsTheUpperHalfOfTheWrappedProduct) {
  testing::Random random(5);
  for (int i = 0; i < 20000; ++i) {
    const TurnFrequency f{random.Bits(), random.Bits()};
    const auto n = static_cast<int64_t>(random.Bits()) >> random.Integer(0, 63);
    for (int64_t ticks : {n, INT64_MIN, INT64_MAX, int64_t{-1}, int64_t{0}}) {
      EXPECT_EQ(PhaseWord(f, ticks),
                static_cast<uint64_t>(Wide(f, ticks) >> 64))
          << f.hi << " " << f.lo << " " << ticks;
    }
  }
}

TEST(PhaseWord, AddsUpToTheCarryOfItsLowerHalf) {
  // P(a) + P(b) = P(a + b) in 128 bits; the word drops 64 of them, so that the
  // sum of two may lack their carry of 2^-64 turn.
  testing::Random random(6);
  for (int i = 0; i < 20000; ++i) {
    const TurnFrequency f{random.Bits(), random.Bits()};
    const auto a = static_cast<int64_t>(random.Bits());
    const auto b = static_cast<int64_t>(random.Bits());
    const auto sum = static_cast<int64_t>(static_cast<uint64_t>(a) +
                                          static_cast<uint64_t>(b));
    __int128 exact = static_cast<__int128>(a) + b;
    if (exact != sum) continue;
    const bool carry =
        static_cast<uint64_t>(Wide(f, a)) > ~static_cast<uint64_t>(Wide(f, b));
    EXPECT_EQ(PhaseWord(f, a) + PhaseWord(f, b) + carry, PhaseWord(f, sum))
        << a << " " << b;
  }
}

TEST(PhaseWord, RealTicksThatAreWholeAgreeWithIntegers) {
  testing::Random random(8);
  for (int i = 0; i < 20000; ++i) {
    const double omega = std::exp(20 * random.Uniform() - 15);
    const TurnFrequency f =
        MakeTurnFrequency(random.Coin() ? omega : -omega, {});
    const int64_t n =
        (static_cast<int64_t>(random.Bits()) >> random.Integer(11, 63)) *
        (int64_t{1} << random.Integer(0, 10));
    const uint64_t whole = PhaseWord(f, n);
    const uint64_t real = PhaseWord(f, static_cast<double>(n));
    const auto apart = static_cast<int64_t>(whole - real);
    EXPECT_LE(std::abs(apart), 1) << omega << " at " << n;
  }
}

TEST(PhaseWord, RealTicksTurnByTheTrueFrequency) {
  // Also where the frequency is negative or has whole turns per tick: those
  // drop out of whole ticks, not out of parts of one.
  testing::Random random(9);
  for (double turns_per_tick :
       {0.125, 0.75, -0.125, -0.4, 5.25, -3.5, 159.15}) {
    const TurnFrequency f = MakeTurnFrequency(kTwoPi * turns_per_tick, {});
    for (double ticks : {0.5, 0.25, -0.5, 1.5, -2.75, 1000.125}) {
      double whole;
      const double expected = std::modf(turns_per_tick * ticks, &whole);
      EXPECT_LE(Apart(PhaseWord(f, ticks), expected), 1e-9)
          << turns_per_tick << " turns per tick, " << ticks << " ticks";
    }
  }
}

// As many turns, whatever a tick is: of parts of ticks with more whole turns
// than 64 bits hold, too.
TEST(PhaseWord, RealTicksTurnAlikeInAnyUnit) {
  testing::Random random(11);
  for (int i = 0; i < 5000; ++i) {
    const double omega =
        std::exp(20 * random.Uniform() - 15) * (random.Coin() ? 1 : -1);
    const double ticks = random.Normal();
    const auto exponent = static_cast<int>(random.Integer(0, 115));
    const TurnFrequency slow = MakeTurnFrequency(omega, {});
    const TurnFrequency fast =
        MakeTurnFrequency(std::ldexp(omega, exponent), {});
    const auto apart = static_cast<int64_t>(
        PhaseWord(slow, ticks) - PhaseWord(fast, std::ldexp(ticks, -exponent)));
    EXPECT_LE(std::abs(apart), 1)
        << omega << " at " << ticks << " / 2^" << exponent;
  }
}

TEST(PhaseWord, TinyRealTicksGiveAPhaseOfZero) {
  const TurnFrequency f = MakeTurnFrequency(1, {});
  EXPECT_EQ(PhaseWord(f, 0.0), 0u);
  EXPECT_EQ(PhaseWord(f, -0.0), 0u);
  EXPECT_LE(Apart(PhaseWord(f, 5e-324), 0), 1e-15);
  EXPECT_LE(Apart(PhaseWord(f, -1e-300), 0), 1e-15);
}

// Turns of omega * 2^exponent, which is a double: the library reduces it.
double TurnsAtPower(double omega, int exponent) {
  const double angle = std::ldexp(omega, exponent);
  return std::atan2(std::sin(angle), std::cos(angle)) / kTwoPi;
}

TEST(PhaseWord, RealTicksBeyondInt64LoseOnlyWhatTheFrequencyLacks) {
  testing::Random random(10);
  for (int i = 0; i < 2000; ++i) {
    const double omega = std::exp(20 * random.Uniform() - 15);
    const auto exponent = static_cast<int>(random.Integer(63, 100));
    const TurnFrequency f = MakeTurnFrequency(omega, {});
    EXPECT_LE(Apart(PhaseWord(f, std::ldexp(1.0, exponent)),
                    TurnsAtPower(omega, exponent)),
              1e-14 + kTwoPi * std::ldexp(1.0, exponent - 128))
        << omega << " at 2^" << exponent;
  }
  const TurnFrequency f = MakeTurnFrequency(0.37, {});
  EXPECT_EQ(PhaseWord(f, 0x1p300), 0u);
  EXPECT_EQ(PhaseWord(f, -1.7e308), 0u);
}

TEST(MakeClockTurns, ProductsWithFloatsKeepThePhase) {
  testing::Random random(11);
  for (int i = 0; i < 20000; ++i) {
    const double size = std::exp(60 * random.Uniform() - 40);
    const double omega = random.Coin() ? size : -size;
    const ClockTurns turns = MakeClockTurns(omega);
    const auto exponent = static_cast<int>(random.Integer(-30, 60));
    const double clock = std::ldexp(1.0, exponent);
    const double expected = TurnsAtPower(omega, exponent);
    const double whole = turns.high * clock, low = turns.low * clock;
    const double got =
        (whole - std::nearbyint(whole)) + (low - std::nearbyint(low));
    const double difference = got - expected;
    EXPECT_LE(std::fabs(difference - std::round(difference)),
              1e-15 + std::ldexp(std::fabs(whole), -80))
        << omega << " at 2^" << exponent;
    // Room for a float's 24 bits.
    EXPECT_EQ(std::fma(turns.high, 16777213.0, -turns.high * 16777213.0), 0);
  }
}

TEST(MakeClockTurns, FastestAndSlowestStayFinite) {
  EXPECT_EQ(MakeClockTurns(1e300).high, 0);
  EXPECT_EQ(MakeClockTurns(-1e300).low, 0);
  EXPECT_EQ(MakeClockTurns(0).high, 0);
  for (double omega : {5e-324, 1e-300, 1e76}) {
    const ClockTurns turns = MakeClockTurns(omega);
    EXPECT_TRUE(std::isfinite(turns.high * 3.4e38)) << omega;
    EXPECT_TRUE(std::isfinite(turns.low * 3.4e38)) << omega;
  }
}

absl::StatusOr<TimeAxis> MakeTicks(const std::vector<int64_t>& ticks,
                                   int64_t batch, int64_t rows, bool per_item,
                                   int coordinates = 1) {
  return TimeAxis::Make(
      TimeAxis::Kind::kTicks,
      absl::MakeConstSpan(reinterpret_cast<const char*>(ticks.data()),
                          8 * ticks.size()),
      batch, rows, per_item, coordinates);
}

TEST(TimeAxis, DefaultIsPositions) {
  EXPECT_EQ(TimeAxis().kind(), TimeAxis::Kind::kPositions);
}

TEST(TimeAxis, SharedRowsServeEveryItem) {
  const std::vector<int64_t> ticks = {5, INT64_MIN, INT64_MAX};
  const auto axis = MakeTicks(ticks, 2, 3, /*per_item=*/false);
  ASSERT_TRUE(axis.ok()) << axis.status();
  EXPECT_EQ(axis->rows(), 3);
  for (int64_t row = 0; row < 3; ++row) {
    EXPECT_EQ(axis->Ticks(0, row), ticks[row]);
    EXPECT_EQ(axis->Ticks(1, row), ticks[row]);
  }
}

TEST(TimeAxis, CoordinatesAreTheLastAxis) {
  std::vector<int64_t> ticks(2 * 3 * 2);
  for (size_t i = 0; i < ticks.size(); ++i) ticks[i] = 10 * i;
  const auto axis = MakeTicks(ticks, 2, 3, /*per_item=*/true, 2);
  ASSERT_TRUE(axis.ok()) << axis.status();
  EXPECT_EQ(axis->Ticks(1, 2, 1), 110);
  EXPECT_EQ(axis->Ticks(1, 0, 0), 60);
}

TEST(TimeAxis, ReadsRealsAtAnyAlignment) {
  std::vector<char> bytes(8 * 2 + 3);
  const double times[2] = {-0.5, 1.7e9 + 0.25};
  std::memcpy(bytes.data() + 3, times, sizeof(times));
  const auto axis = TimeAxis::Make(TimeAxis::Kind::kReal,
                                   absl::MakeConstSpan(bytes).subspan(3), 1, 2,
                                   /*per_item=*/false);
  ASSERT_TRUE(axis.ok()) << axis.status();
  EXPECT_EQ(axis->Real(0, 0), times[0]);
  EXPECT_EQ(axis->Real(0, 1), times[1]);
}

TEST(TimeAxis, RefusesBytesThatDoNotMatchTheShape) {
  const std::vector<int64_t> six(6);
  EXPECT_FALSE(MakeTicks(six, 2, 2, true).ok());
  EXPECT_FALSE(MakeTicks(six, 2, 3, false).ok());
  EXPECT_FALSE(MakeTicks(six, 1, 7, true).ok());
  EXPECT_FALSE(MakeTicks(six, 1, 3, true, 1).ok());
  EXPECT_TRUE(MakeTicks(six, 1, 3, true, 2).ok());
  EXPECT_TRUE(MakeTicks(six, 2, 3, true).ok());
}

TEST(TimeAxis, RefusesShapesThatWrap) {
  const std::vector<int64_t> none;
  EXPECT_FALSE(MakeTicks(none, 1, -1, true).ok());
  EXPECT_FALSE(MakeTicks(none, -1, 1, true).ok());
  EXPECT_FALSE(MakeTicks(none, 1, 0, true, 0).ok());
  EXPECT_FALSE(MakeTicks(none, 1, int64_t{1} << 61, false).ok());
  EXPECT_FALSE(MakeTicks(none, int64_t{1} << 31, int64_t{1} << 31, true).ok());
}

}  // namespace
}  // namespace attnd
