#include "kernels/pruning.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace attnd {
namespace {

constexpr int64_t kHalf = kMaxTileRows / 2;
constexpr int64_t kLanes = 16;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Bounds and sums that are compared were rounded to f32 on the way.
constexpr double kSlack = 1e-4;

// Sizes of the lags between some rows and keys.
struct LagRange {
  double low = 0, high = 0;
};

// From the smallest and the largest signed lag.
LagRange Sizes(double smallest, double largest) {
  if (smallest >= 0) return {smallest, largest};
  if (largest <= 0) return {-largest, -smallest};
  return {0, std::max(-smallest, largest)};
}

}  // namespace

bool CanPrune(const Plan& plan) {
  const AttentionProblem& problem = plan.problem();
  const OutputSet& wanted = problem.outputs;
  return problem.prune_tolerance > 0 && !wanted.scores && !wanted.weights &&
         !wanted.entropy && !wanted.key_mass && wanted.top_k == 0 &&
         problem.value_mask.empty();
}

void Pruning::Start(const Plan& plan, int64_t item, int64_t head, int64_t first,
                    int64_t count, const float* queries, KeyPack& pack,
                    const CumulativeBias* gates) {
  plan_ = &plan;
  item_ = &plan.item(item);
  encoder_ = plan.encoder(item);
  pack_ = &pack;
  gates_ = gates;
  head_ = head;
  first_ = first;
  bounded_ = plan.problem().bias.shape() == Shape4{} &&
             (encoder_ == nullptr || encoder_->endpoint_bias().empty()) &&
             (pack.head() == nullptr || pack.head()->smalls().empty());
  for (Half& half : halves_) half = {.lse = kInfinity};
  for (int64_t r = 0; r < count; ++r) {
    // Lanes of their own vectorise; dims are padded to whole ones.
    float lanes[kLanes] = {};
    const float* row = queries + r * pack.dim();
    for (int64_t c = 0; c < pack.dim(); c += kLanes) {
      for (int64_t l = 0; l < kLanes; ++l) lanes[l] += row[c + l] * row[c + l];
    }
    const float square = std::accumulate(lanes, lanes + kLanes, 0.0f);
    Half& half = halves_[r / kHalf];
    // What is not finite spreads: no maximum would keep a NaN.
    const double norm = std::sqrt(square);
    half.norm = norm >= half.norm  ? norm
                : std::isnan(norm) ? kInfinity
                                   : half.norm;
    const int64_t sees = item_->end[first + r] - item_->begin[first + r];
    half.visible = std::max(half.visible, sees);
    if (sees > 0) half.lse = -kInfinity;
  }
}

void Pruning::Raise(int64_t row, int64_t count, const float* lse) {
  for (int64_t r = row; r < row + count; r += kHalf) {
    double smallest = kInfinity;
    for (int64_t i = r; i < std::min(r + kHalf, row + count); ++i) {
      if (item_->begin[first_ + i] < item_->end[first_ + i]) {
        // A NaN row loses nothing by being left alone.
        smallest = std::min(smallest, double{lse[i - row]});
      }
    }
    halves_[r / kHalf].lse = smallest;
  }
}

// Largest size of A(D) over the lags, as a matrix norm.
double Pruning::Growth(int64_t row, int64_t count, int64_t key,
                       int64_t last) const {
  const HeadEncoder* head = pack_->head();
  if (head == nullptr || head->rates().empty()) return 1;
  DriveAxes& axes = pack_->axes();
  const int64_t i = first_ + row;
  double growth = 0;
  for (size_t chain = 0; chain < head->rates().size(); ++chain) {
    const int source = head->chain_sources()[chain];
    const Drive& drive = encoder_->sources()[source];
    // Along further axes neither rows nor keys are in order.
    LagRange lag{0, kInfinity};
    if (drive.clock || drive.coordinate == 0) {
      lag = Sizes(axes.QueryMinusKey(source, i, last),
                  axes.QueryMinusKey(source, i + count - 1, key));
    }
    // An average over [0, D] has seen small lags.
    if (head->pairwise()) lag.low = 0;
    double polynomial = 1, term = 1;
    const double z = head->couplings()[chain] == 0
                         ? 0
                         : std::fabs(head->couplings()[chain]) * lag.high;
    const int order = head->group_of(static_cast<int>(chain)).order;
    for (int power = 1; power < order; ++power) {
      term *= z / power;
      polynomial += term;
    }
    growth = std::max(growth,
                      polynomial * std::exp(-head->rates()[chain] * lag.low));
  }
  // Channels without a chain keep their size.
  int64_t chained = 0;
  for (const HeadEncoder::ChainGroup& group : head->chain_groups()) {
    chained += int64_t{group.order} * group.count;
  }
  const bool all = chained >= plan_->problem().query.shape().cols;
  return all ? growth : std::max(growth, 1.0);
}

double Pruning::Bias(int64_t row, int64_t count, int64_t key,
                     int64_t last) const {
  if (encoder_ == nullptr || !encoder_->has_bias()) return 0;
  const int64_t i = first_ + row, end = i + count - 1;
  const double smallest = item_->Lag(i, last), largest = item_->Lag(end, key);
  double bias = 0;
  if (encoder_->has_linear_bias()) {
    const double per_tick = encoder_->slope(static_cast<int>(head_)) *
                            encoder_->ratio().units_per_tick();
    bias -= per_tick * Sizes(smallest, largest).low;
  }
  if (!encoder_->lag_bias().empty()) {
    bias += encoder_->lag_bias().Supremum(static_cast<int>(head_), smallest,
                                          largest);
  }
  if (gates_ != nullptr && smallest >= 0) bias += gates_->Supremum(i, last);
  return bias;
}

bool Pruning::Skip(int64_t row, int64_t count, int64_t key, int64_t keys) {
  if (!bounded_) return false;
  const int64_t h0 = row / kHalf, h1 = (row + count - 1) / kHalf;
  double query = 0, lse = kInfinity;
  int64_t visible = 0;
  for (int64_t h = h0; h <= h1; ++h) {
    query = std::max(query, halves_[h].norm);
    lse = std::min(lse, halves_[h].lse);
    visible = std::max(visible, halves_[h].visible);
  }
  const int64_t last = std::min(key + keys, pack_->key_rows()) - 1;
  double norm = 0;
  for (int64_t block = key; block < key + keys; block += kKeyBlock) {
    norm = std::max(norm, pack_->Norm(block));
  }
  double upper = query * norm * Growth(row, count, key, last);
  upper += Bias(row, count, key, last);
  upper += kSlack * (1 + std::fabs(upper));
  // False for everything that is not finite.
  const double share = std::exp(upper - lse);  // of one key, at most
  if (!(share * static_cast<double>(visible) <=
        plan_->problem().prune_tolerance)) {
    return false;
  }
  for (int64_t h = h0; h <= h1; ++h) {
    halves_[h].lost += share * static_cast<double>(last + 1 - key);
  }
  return true;
}

double Pruning::lost_mass_bound() const {
  return std::max(halves_[0].lost, halves_[1].lost);
}

}  // namespace attnd
