#include "kernels/encoder_builder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace attnd {
namespace {

// A plane seen from the encoded order.
struct PlacedPlane {
  int first, second;  // positions
  const Plane* plane;
};

std::vector<HeadEncoder::PlaneGroup> GroupPlanes(
    const std::vector<PlacedPlane>& planes) {
  std::vector<HeadEncoder::PlaneGroup> groups;
  const int count = static_cast<int>(planes.size());
  for (int begin = 0; begin < count;) {
    const int distance = planes[begin].second - planes[begin].first;
    const int step = distance == 1 && begin + 1 < count &&
                             planes[begin + 1].first == planes[begin].first + 2
                         ? 2
                         : 1;
    int end = begin + 1;
    while (end < count && planes[end].first == planes[end - 1].first + step &&
           planes[end].second - planes[end].first == distance) {
      ++end;
    }
    // A lone pair of neighbours reads the same in both layouts.
    const bool interleaved = distance == 1;
    groups.push_back({.first = planes[begin].first,
                      .planes = end - begin,
                      .distance = interleaved ? 0 : distance,
                      .layout = interleaved ? PairLayout::kInterleaved
                                            : PairLayout::kHalfSplit,
                      .table_offset = begin});
    begin = end;
  }
  return groups;
}

}  // namespace

// Lays one head's generator out for the loops.
class EncoderBuilder {
 public:
  EncoderBuilder(Encoder& encoder, Generator generator) : encoder_(encoder) {
    head_.generator_ = std::move(generator);
  }

  HeadEncoder Build() {
    Order();
    AddChains();
    AddSmalls();
    AddDecaySources();
    AddPlanes();
    AddFreeTurns();
    AddBasis();
    AddSpectrum();
    return std::move(head_);
  }

 private:
  const Generator& generator() const { return head_.generator_; }

  int Source(const Drive& drive) {
    auto& sources = encoder_.sources_;
    const auto it = std::find(sources.begin(), sources.end(), drive);
    if (it != sources.end()) return static_cast<int>(it - sources.begin());
    sources.push_back(drive);
    encoder_.units_per_tick_.push_back(
        encoder_.RatioOf(drive).units_per_tick());
    return static_cast<int>(sources.size()) - 1;
  }

  // Chains of two or more jets come first, jet by jet, real parts before
  // imaginary ones, so that loops over chains and over planes are contiguous.
  void Order() {
    const int dim = generator().dim();
    std::vector<int> order;
    std::vector<bool> taken(dim, false);
    for (int m = 2; m <= 4; ++m) {
      std::vector<const Chain*> chains = ChainsOf(m);
      if (chains.empty()) continue;
      HeadEncoder::ChainGroup group{
          .order = m,
          .first = static_cast<int>(order.size()),
          .count = static_cast<int>(chains.size()),
          .factor_offset = static_cast<int>(head_.rates_.size())};
      for (int jet = 0; jet < m; ++jet) {
        for (const Chain* chain : chains) order.push_back(chain->channels[jet]);
      }
      for (const Chain* chain : chains) PushChain(*chain);
      group.halves_alike = HalvesAlike(group);
      head_.chain_groups_.push_back(group);
    }
    for (const SmallBlock& small : generator().small_blocks()) {
      order.insert(order.end(), small.channels.begin(), small.channels.end());
    }
    for (int c : order) taken[c] = true;
    const bool identity = order.empty();
    for (int c = 0; c < dim; ++c) {
      if (!taken[c]) order.push_back(c);
    }
    position_.resize(dim);
    for (int p = 0; p < dim; ++p) position_[order[p]] = p;
    if (!identity) head_.order_ = std::move(order);
  }

  std::vector<const Chain*> ChainsOf(int order) const {
    std::vector<int> member(generator().dim(), 0);  // 1: second of a plane
    for (const Plane& plane : generator().planes()) member[plane.second] = 1;
    std::vector<const Chain*> chains;
    for (const Chain& chain : generator().chains()) {
      if (static_cast<int>(chain.channels.size()) == order) {
        chains.push_back(&chain);
      }
    }
    std::stable_sort(chains.begin(), chains.end(),
                     [&](const Chain* a, const Chain* b) {
                       return member[a->channels[0]] < member[b->channels[0]];
                     });
    return chains;
  }

  void PushChain(const Chain& chain) {
    // Infinite, it would make NaN of a lag of 0; as large as a float can be, it
    // leaves nothing of any other.
    const auto to_float = [](double factor) {
      constexpr double kMost = std::numeric_limits<float>::max();
      return static_cast<float>(std::clamp(factor, -kMost, kMost));
    };
    head_.rates_.push_back(to_float(chain.rate));
    head_.exact_rates_.push_back(chain.rate);
    head_.exact_couplings_.push_back(chain.coupling);
    head_.couplings_.push_back(to_float(chain.coupling));
    const int source = Source(chain.drive);
    head_.common_source_ =
        head_.chain_sources_.empty() || head_.common_source_ == source ? source
                                                                       : -1;
    head_.chain_sources_.push_back(source);
    if (chain.channels.size() > 1) head_.coupled_ = true;
  }

  // Chains of one cover a run of positions; what lies between decays by 0.
  void AddChains() {
    std::map<int, const Chain*> decays;  // by position
    for (const Chain& chain : generator().chains()) {
      if (chain.channels.size() == 1) {
        decays[position_[chain.channels[0]]] = &chain;
      }
    }
    if (decays.empty()) return;
    const int first = decays.begin()->first;
    const int last = decays.rbegin()->first;
    const Chain still{.channels = {},
                      .rate = 0,
                      .coupling = 0,
                      .drive = decays.begin()->second->drive};
    head_.chain_groups_.push_back(
        {.order = 1,
         .first = first,
         .count = last - first + 1,
         .factor_offset = static_cast<int>(head_.rates_.size())});
    for (int p = first; p <= last; ++p) {
      const auto it = decays.find(p);
      PushChain(it == decays.end() ? still : *it->second);
    }
    HeadEncoder::ChainGroup& group = head_.chain_groups_.back();
    group.halves_alike = HalvesAlike(group);
  }

  // Of a group whose chains have been pushed.
  bool HalvesAlike(const HeadEncoder::ChainGroup& group) const {
    if (group.count % 32 != 0) return false;
    const int half = group.count / 2;
    const auto repeats = [&](const auto& list) {
      const auto first = list.begin() + group.factor_offset;
      return std::equal(first, first + half, first + half);
    };
    return repeats(head_.exact_rates_) && repeats(head_.exact_couplings_) &&
           repeats(head_.chain_sources_);
  }

  void AddSmalls() {
    for (const SmallBlock& small : generator().small_blocks()) {
      HeadEncoder::Small placed{.first = position_[small.channels[0]],
                                .size = static_cast<int>(small.channels.size()),
                                .source = Source(small.drive),
                                .matrix = small.matrix,
                                .mirrored = small.matrix};
      for (size_t i = 0; i < small.rotation.size(); ++i) {
        placed.mirrored[i] -= 2 * small.rotation[i];
      }
      head_.smalls_.push_back(std::move(placed));
    }
  }

  void AddDecaySources() {
    std::set<int> sources;
    for (size_t i = 0; i < head_.rates_.size(); ++i) {
      if (head_.rates_[i] != 0 || head_.couplings_[i] != 0) {
        sources.insert(head_.chain_sources_[i]);
      }
    }
    for (const HeadEncoder::Small& small : head_.smalls_) {
      sources.insert(small.source);
    }
    head_.decay_sources_.assign(sources.begin(), sources.end());
    head_.decays_sorted_ =
        std::all_of(sources.begin(), sources.end(), [&](int source) {
          const Drive& drive = encoder_.sources_[source];
          return drive.clock || drive.coordinate == 0;
        });
  }

  void AddPlanes() {
    std::vector<PlacedPlane> planes;
    for (const Plane& plane : generator().planes()) {
      planes.push_back(
          {position_[plane.first], position_[plane.second], &plane});
    }
    std::sort(planes.begin(), planes.end(),
              [](const PlacedPlane& a, const PlacedPlane& b) {
                return a.first < b.first;
              });
    head_.plane_groups_ = GroupPlanes(planes);
    head_.table_size_ = (static_cast<int>(planes.size()) + 15) / 16 * 16;
    for (size_t p = 0; p < planes.size(); ++p) {
      const Plane& plane = *planes[p].plane;
      AddTerm(plane.drive, plane.omega, p);
      for (const auto& [omega, drive] : plane.further) AddTerm(drive, omega, p);
    }
  }

  void AddTerm(const Drive& drive, double omega, size_t plane) {
    const int source = Source(drive);
    auto it = std::find_if(
        head_.frequencies_.begin(), head_.frequencies_.end(),
        [&](const HeadEncoder::Frequencies& f) { return f.source == source; });
    if (it == head_.frequencies_.end()) {
      HeadEncoder::Frequencies frequencies{
          .source = source,
          .hi = std::vector<uint64_t>(head_.table_size_),
          .lo = std::vector<uint64_t>(head_.table_size_),
          .whole = std::vector<__int128>(head_.table_size_),
          .omega = std::vector<double>(head_.table_size_),
          .clock_high =
              std::vector<double>(drive.clock ? head_.table_size_ : 0),
          .clock_low = std::vector<double>(drive.clock ? head_.table_size_ : 0),
          .turning = std::vector<bool>(head_.table_size_ / 16)};
      head_.frequencies_.push_back(std::move(frequencies));
      it = head_.frequencies_.end() - 1;
    }
    const TurnFrequency turns =
        MakeTurnFrequency(omega, encoder_.RatioOf(drive));
    it->turning[plane / 16] = true;
    it->hi[plane] = turns.hi;
    it->lo[plane] = turns.lo;
    it->whole[plane] = turns.whole;
    it->omega[plane] = omega;
    if (!drive.clock) return;
    const ClockTurns per_unit = MakeClockTurns(omega);
    it->clock_high[plane] = per_unit.high;
    it->clock_low[plane] = per_unit.low;
  }

  void AddFreeTurns() {
    int floats = 0;
    for (const FreeRotation& free : generator().free_rotations()) {
      FreeTurn turn =
          MakeFreeTurn(static_cast<int>(free.channels.size()), free.generators);
      turn.first = position_[free.channels[0]];
      turn.offset = floats;
      for (const Drive& drive : free.drives) {
        turn.sources.push_back(Source(drive));
      }
      floats += turn.size * turn.size;
      head_.free_turns_.push_back(std::move(turn));
    }
    head_.matrix_floats_ = (floats + 15) / 16 * 16;
  }

  // Planes with the chains that share their channels, then what is left.
  void AddSpectrum() {
    std::map<int, const Chain*> chain_of;  // by first channel
    for (const Chain& chain : generator().chains()) {
      chain_of[chain.channels[0]] = &chain;
    }
    std::vector<bool> taken(generator().dim(), false);
    std::map<int, const Plane*> plane_of;  // by first channel
    for (const Plane& plane : generator().planes()) {
      plane_of[plane.first] = &plane;
    }
    for (const auto& [channel, plane] : plane_of) {
      if (taken[channel]) continue;
      HeadEncoder::Spectral spectral;
      spectral.turns.emplace_back(Source(plane->drive), plane->omega);
      for (const auto& [omega, drive] : plane->further) {
        spectral.turns.emplace_back(Source(drive), omega);
      }
      const auto it = chain_of.find(channel);
      const std::vector<int> jets = it == chain_of.end()
                                        ? std::vector<int>{channel}
                                        : it->second->channels;
      if (it != chain_of.end()) SetDecay(*it->second, spectral);
      for (int jet : jets) {
        const Plane& member = *plane_of.at(jet);
        taken[member.first] = taken[member.second] = true;
        spectral.re.push_back(position_[member.first]);
        spectral.im.push_back(position_[member.second]);
      }
      head_.spectrum_.push_back(std::move(spectral));
    }
    for (const auto& [channel, chain] : chain_of) {
      if (taken[channel]) continue;
      HeadEncoder::Spectral spectral;
      SetDecay(*chain, spectral);
      for (int c : chain->channels) {
        taken[c] = true;
        spectral.re.push_back(position_[c]);
      }
      head_.spectrum_.push_back(std::move(spectral));
    }
    for (const HeadEncoder::Small& small : head_.smalls_) {
      for (int i = 0; i < small.size; ++i) TakePosition(small.first + i, taken);
    }
    for (int c = 0; c < generator().dim(); ++c) {
      if (taken[c]) continue;
      HeadEncoder::Spectral still;  // phi1(0) = 1
      still.re.push_back(position_[c]);
      head_.spectrum_.push_back(std::move(still));
    }
  }

  void TakePosition(int position, std::vector<bool>& taken) const {
    taken[head_.order_.empty() ? position : head_.order_[position]] = true;
  }

  void SetDecay(const Chain& chain, HeadEncoder::Spectral& spectral) {
    spectral.rate = chain.rate;
    spectral.coupling = chain.coupling;
    spectral.source = Source(chain.drive);
  }

  void AddBasis() {
    const int dim = generator().dim();
    const std::vector<double>& scale = generator().channel_scale();
    const auto at = [&](int position) {
      return head_.order_.empty() ? position : head_.order_[position];
    };
    if (generator().basis().empty()) {
      if (scale.empty()) return;
      if (std::equal(scale.begin() + 1, scale.end(), scale.begin())) {
        head_.common_scale_ = static_cast<float>(scale[0]);
        return;
      }
      for (int p = 0; p < dim; ++p) {
        head_.scale_.push_back(static_cast<float>(scale[at(p)]));
      }
      return;
    }
    const std::vector<double>& basis = generator().basis();
    const std::vector<double>& inverse = generator().basis_inverse();
    head_.query_basis_.resize(static_cast<size_t>(dim) * dim);
    head_.key_basis_.resize(static_cast<size_t>(dim) * dim);
    for (int in = 0; in < dim; ++in) {
      for (int p = 0; p < dim; ++p) {
        const int c = at(p);
        const double by = scale.empty() ? 1.0 : scale[c];
        head_.query_basis_[in * dim + p] =
            static_cast<float>(by * basis[in * dim + c]);
        head_.key_basis_[in * dim + p] =
            static_cast<float>(by * inverse[c * dim + in]);
      }
    }
  }

  Encoder& encoder_;
  HeadEncoder head_;
  std::vector<int> position_;  // of a channel
};

HeadEncoder LayOutHead(Encoder& encoder, Generator generator) {
  return EncoderBuilder(encoder, std::move(generator)).Build();
}

}  // namespace attnd
