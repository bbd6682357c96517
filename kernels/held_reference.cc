#include "kernels/held_reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace attnd::reference {
namespace {

// Gauss-Legendre nodes and weights on [-1, 1], 10 points.
constexpr double kNodes[] = {0.1488743389816312, 0.4333953941292472,
                             0.6794095682990244, 0.8650633666889845,
                             0.9739065285171717};
constexpr double kWeights[] = {0.2955242247147529, 0.2692667193099963,
                               0.2190863625159820, 0.1494513491505806,
                               0.0666713443086881};

// Largest frequency of a generator.
double Turning(const Generator& generator) {
  double most = 0;
  for (const Plane& p : generator.planes()) {
    double turns = std::abs(p.omega);
    for (const PlaneTerm& term : p.further) turns += std::abs(term.omega);
    most = std::max(most, turns);
  }
  for (const SmallBlock& s : generator.small_blocks()) {
    for (double x : s.rotation) most = std::max(most, std::abs(x));
  }
  return most;
}

// Largest eigenvalue-like number of a generator.
double Stiffness(const Generator& generator) {
  double most = Turning(generator);
  for (const Chain& c : generator.chains()) {
    most = std::max({most, c.rate, std::abs(c.coupling)});
  }
  for (const SmallBlock& s : generator.small_blocks()) {
    for (double x : s.matrix) most = std::max(most, std::abs(x));
  }
  return most;
}

}  // namespace

HeldKeys::HeldKeys(const LinearProblem& problem, const PairRules& rules,
                   const Encoder* encoder, int64_t batch, int64_t kv_head)
    : problem_(problem),
      rules_(rules),
      encoder_(encoder),
      batch_(batch),
      kv_head_(kv_head),
      units_per_tick_(encoder == nullptr ? problem.gap_ratio.units_per_tick()
                                         : encoder->ratio().units_per_tick()) {
  rank_.resize(problem.attention.key.shape().rows);
  for (size_t r = 0; r < rules.order().size(); ++r) {
    rank_[rules.order()[r]] = static_cast<int64_t>(r);
  }
}

double HeldKeys::Gap(Row a, Row b, int coordinate) const {
  if (!a.query) return rules_.KeyLag(a.index, b.index, coordinate).rounded;
  return rules_.LagOf(a.index, b.index, coordinate).rounded;
}

double HeldKeys::DriveGap(const Drive& drive, Row a, Row b) const {
  if (!drive.clock) {
    return Gap(a, b, drive.coordinate) *
           encoder_->RatioOf(drive).units_per_tick();
  }
  const auto value = [&](Row row) {
    const TensorRef& clock = row.query ? problem_.attention.query_clock
                                       : problem_.attention.key_clock;
    std::vector<float> values(clock.shape().cols);
    clock.LoadRow(batch_, kv_head_, row.index, values.data());
    return static_cast<double>(values[drive.clock_channel]);
  };
  return value(a) - value(b);
}

// A from a point `share` of the way from one row to another.
std::vector<double> HeldKeys::Matrix(Row to, Row from, Row until,
                                     double share) const {
  return encoder_->head(kv_head_).generator().Exp(
      [&](const Drive& drive) {
        return DriveGap(drive, to, from) - share * DriveGap(drive, until, from);
      },
      {});
}

bool HeldKeys::SeenBy(int64_t i, int64_t j) const {
  if (!rules_.ValidQuery(i) || !rules_.ValidKey(j)) return false;
  const double lag = rules_.LagOf(i, j).rounded;
  return problem_.attention.mask.strict ? lag > 0 : lag >= 0;
}

bool HeldKeys::Move(int64_t i, int64_t j, const std::vector<double>& key,
                    std::vector<double>& moved,
                    std::vector<double>& size) const {
  const size_t dim = key.size();
  moved.assign(dim, 0);
  size.assign(dim, 0);
  const auto add = [&](const std::vector<double>& matrix, double weight) {
    for (size_t r = 0; r < dim; ++r) {
      for (size_t c = 0; c < dim; ++c) {
        const double term =
            weight *
            (encoder_ != nullptr ? matrix[r * dim + c] : double(r == c)) *
            key[c];
        moved[r] += term;
        size[r] += std::abs(term);
      }
    }
  };
  const Row to{true, i}, from{false, j};
  const auto rank = static_cast<size_t>(rank_[j]);
  const bool has_next =
      rank + 1 < rules_.order().size() && SeenBy(i, rules_.order()[rank + 1]);
  const Row until = has_next ? Row{false, rules_.order()[rank + 1]} : to;
  const double gap = Gap(until, from) * units_per_tick_;
  std::vector<double> matrix;
  if (problem_.options.input_rule == LinearOptions::InputRule::kTrapezoid) {
    double weight = has_next ? gap / 2 : 0;
    if (rank > 0) {
      weight +=
          Gap(from, {false, rules_.order()[rank - 1]}) * units_per_tick_ / 2;
    }
    if (encoder_ != nullptr) matrix = Matrix(to, from, until, 0);
    add(matrix, weight);
    return true;
  }
  // Panels halve towards the end of the hold, where decays are steepest, and
  // are short against every turn.
  double stiffness = 0, turning = 0;
  if (encoder_ != nullptr) {
    const Generator& generator = encoder_->head(kv_head_).generator();
    for (const Drive& drive : generator.drives()) {
      const double hold = std::abs(DriveGap(drive, until, from));
      stiffness = std::max(stiffness, Stiffness(generator) * hold);
      turning = std::max(turning, Turning(generator) * hold);
    }
  }
  constexpr double kMostPieces = 1000, kReach = 3;
  if (!(turning < kMostPieces * kReach)) return false;
  double end = 1;  // shares of the hold that are left, from the end
  while (true) {
    const bool last = end * stiffness < 1;
    const double begin = last ? 0 : end / 2;
    const int pieces =
        1 + static_cast<int>(
                std::min(kMostPieces, (end - begin) * stiffness / kReach));
    for (int piece = 0; piece < pieces; ++piece) {
      const double half = (end - begin) / pieces / 2;
      const double middle = begin + (2 * piece + 1) * half;
      for (int n = 0; n < 5; ++n) {
        for (double sign : {-1.0, 1.0}) {
          const double left = middle + sign * half * kNodes[n];
          if (encoder_ != nullptr) matrix = Matrix(to, from, until, 1 - left);
          add(matrix, gap * half * kWeights[n]);
        }
      }
    }
    if (last) return true;
    end = begin;
  }
}

}  // namespace attnd::reference
