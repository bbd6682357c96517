#include "server/resolved_generator.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace attnd::server {
namespace {

// Of a block, a part of one, or a further axis.
template <typename Message>
void SetDrive(const Drive& drive, Message& out) {
  out.set_clock(drive.clock ? v1::CLOCK_REQUEST : v1::CLOCK_TIME);
  if (drive.clock) {
    out.set_clock_channel(drive.clock_channel);
  } else {
    out.set_coordinate(drive.coordinate);
  }
}

class Resolver {
 public:
  explicit Resolver(const Generator& generator)
      : generator_(generator), done_(generator.dim(), false) {
    for (const Chain& chain : generator.chains()) {
      for (int channel : chain.channels) chain_of_[channel] = &chain;
    }
    for (const Plane& plane : generator.planes()) {
      plane_of_[plane.first] = &plane;
    }
  }

  v1::ResolvedGenerator Resolve();

 private:
  v1::ResolvedBlock& AddBlock(absl::string_view kind, const Drive& drive);
  void AddChannel(int channel, v1::ResolvedBlock& block) {
    block.add_channels(channel);
    done_[channel] = true;
  }
  void AddPlane(const Plane& plane);
  void AddChain(const Chain& chain);
  void AddSmallBlock(const SmallBlock& small);
  void AddFreeRotation(const FreeRotation& free);
  void AddIdentity();

  const Generator& generator_;
  v1::ResolvedGenerator out_;
  std::map<int, const Chain*> chain_of_;  // by each channel
  std::map<int, const Plane*> plane_of_;  // by first channel
  std::vector<bool> done_;                // per channel
};

v1::ResolvedBlock& Resolver::AddBlock(absl::string_view kind,
                                      const Drive& drive) {
  v1::ResolvedBlock& block = *out_.add_blocks();
  block.set_kind(std::string(kind));
  block.set_amplitude(1);
  SetDrive(drive, block);
  return block;
}

// All jets of the chain that the plane belongs to.
void Resolver::AddPlane(const Plane& plane) {
  const auto found = chain_of_.find(plane.first);
  const Chain* chain = found == chain_of_.end() ? nullptr : found->second;
  const std::vector<int> jets =
      chain == nullptr ? std::vector<int>{plane.first} : chain->channels;
  v1::ResolvedBlock& block = AddBlock(jets.size() > 1    ? "complex_jordan"
                                      : chain == nullptr ? "rotation"
                                                         : "damped_rotation",
                                      plane.drive);
  block.set_frequency(plane.omega);
  block.set_size(static_cast<int>(jets.size()));
  const std::vector<double>& scale = generator_.channel_scale();
  if (!scale.empty()) {
    block.set_amplitude(scale[plane.first] * scale[plane.first]);
  }
  if (chain != nullptr) {
    block.set_rate(chain->rate);
    block.set_coupling(chain->coupling);
    if (chain->drive != plane.drive) {
      SetDrive(chain->drive, *block.mutable_decay_drive());
    }
  }
  for (int jet : jets) {
    AddChannel(plane_of_.at(jet)->first, block);
    AddChannel(plane_of_.at(jet)->second, block);
  }
  for (const PlaneTerm& term : plane.further) {
    v1::ResolvedTerm& further = *block.add_further();
    further.set_frequency(term.omega);
    SetDrive(term.drive, further);
  }
}

void Resolver::AddChain(const Chain& chain) {
  v1::ResolvedBlock& block = AddBlock(
      chain.channels.size() > 1 ? "real_jordan" : "decay", chain.drive);
  block.set_rate(chain.rate);
  block.set_coupling(chain.coupling);
  block.set_size(static_cast<int>(chain.channels.size()));
  for (int c : chain.channels) AddChannel(c, block);
}

void Resolver::AddSmallBlock(const SmallBlock& small) {
  v1::ResolvedBlock& block = AddBlock("dense", small.drive);
  block.set_size(static_cast<int>(small.channels.size()));
  block.set_rate(small.rate);
  for (double x : small.matrix) block.add_matrix(x);
  for (double x : small.rotation) block.add_rotation(x);
  for (int c : small.channels) AddChannel(c, block);
}

void Resolver::AddFreeRotation(const FreeRotation& free) {
  v1::ResolvedBlock& block = AddBlock("liere", free.drives.front());
  block.set_size(static_cast<int>(free.channels.size()));
  for (double x : free.generators) block.add_matrix(x);
  for (int c : free.channels) AddChannel(c, block);
}

void Resolver::AddIdentity() {
  v1::ResolvedBlock identity;
  identity.set_kind("identity");
  identity.set_amplitude(1);
  for (int channel = 0; channel < generator_.dim(); ++channel) {
    if (!done_[channel]) identity.add_channels(channel);
  }
  if (identity.channels_size() > 0) *out_.add_blocks() = identity;
}

v1::ResolvedGenerator Resolver::Resolve() {
  for (const auto& [channel, plane] : plane_of_) {
    if (!done_[channel]) AddPlane(*plane);
  }
  for (const Chain& chain : generator_.chains()) {
    if (!done_[chain.channels[0]]) AddChain(chain);
  }
  for (const SmallBlock& small : generator_.small_blocks()) {
    AddSmallBlock(small);
  }
  for (const FreeRotation& free : generator_.free_rotations()) {
    AddFreeRotation(free);
  }
  AddIdentity();
  for (double x : generator_.basis()) out_.add_basis(x);
  out_.set_condition(generator_.condition());
  out_.set_averaged(generator_.averaged());
  return out_;
}

}  // namespace

v1::ResolvedGenerator ResolveGenerator(const Generator& generator) {
  return Resolver(generator).Resolve();
}

}  // namespace attnd::server
