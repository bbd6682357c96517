#include "kernels/linear.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/float16.h"
#include "kernels/float_mode.h"
#include "kernels/gemm.h"
#include "kernels/linear_carry.h"
#include "kernels/linear_chunk.h"
#include "kernels/linear_held.h"
#include "kernels/linear_normaliser.h"
#include "kernels/linear_sums.h"
#include "kernels/linear_tile.h"
#include "kernels/linear_walk.h"

namespace attnd {

struct LinearProgress::State {
  bool started = false;
  int64_t key = 0, query = 0;  // next ones, in the walk
  double decay_sum = 0;
  LinearSums sums;  // at key `key`, or at the start before any
  // Sums over the future of a bidirectional head: over ones [group, Lq]; over
  // values [group, Lq, Dv] where the output has 16 bits, else they wait there.
  std::vector<float> future_ones, future;
};

struct LinearWorkspace::State {
  std::unique_ptr<TileGemm> gemm;
  LinearWalk walk;
  LinearDecays decays;
  HeldKeys held;
  LinearChunk chunk;
  LinearTile tile;
  LinearNormaliser normaliser;
  std::vector<double> lags, late_lags;  // of a step
};

namespace {

// One pass over one head.
class Pass {
 public:
  Pass(const LinearPlan& plan, int64_t head, LinearProgress::State& progress,
       LinearWorkspace::State& work, const LinearBuffers& out,
       const std::atomic<bool>* cancelled)
      : plan_(plan),
        problem_(plan.problem().attention),
        progress_(progress),
        work_(work),
        out_(out),
        cancelled_(cancelled),
        item_(head / problem_.key.shape().heads),
        batch_(plan.rows().batch(item_)),
        kv_head_(head % problem_.key.shape().heads),
        group_(problem_.query.shape().heads / problem_.key.shape().heads) {
    const Encoder* encoder = plan.rows().encoder(item_);
    if (encoder != nullptr && !encoder->head(kv_head_).identity()) {
      head_ = &encoder->head(kv_head_);
    }
  }

  absl::Status Forward();
  absl::Status Backward();

 private:
  absl::Status Segment(LinearProgress::State& progress, int64_t last_key);
  void Select(bool backward);
  absl::Status Begin(LinearProgress::State& progress);
  const double* LagsFrom(int64_t from, int64_t to,
                         std::vector<double>& lags) const;
  absl::Status RunChunk(LinearProgress::State& progress);
  absl::Status InsideRows(int64_t first, int64_t last, const LinearSums& sums);
  absl::Status BehindRows(int64_t first, int64_t last, int64_t reference,
                          const LinearSums& sums);
  void EmptyRows(int64_t first, int64_t last);
  void Finish(const LinearTile::Place& place);
  int64_t OutputIndex(int64_t head, int64_t row) const;
  void WriteRow(int64_t head, int64_t row, const float* values) const;
  void AddFuture(int64_t head, int64_t row, float* sums);
  LinearHead here() const {
    return {plan_, item_, kv_head_, head_, work_.walk};
  }
  HeldKeys* held() { return plan_.state_shape().held ? &work_.held : nullptr; }
  bool cancelled() const {
    return cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed);
  }

  const LinearPlan& plan_;
  const AttentionProblem& problem_;
  LinearProgress::State& progress_;
  LinearWorkspace::State& work_;
  const LinearBuffers& out_;
  const std::atomic<bool>* cancelled_;
  int64_t item_, batch_, kv_head_, group_;
  const HeadEncoder* head_ = nullptr;
};

void Pass::Select(bool backward) {
  work_.walk.Select(plan_, item_, kv_head_, backward);
  work_.decays.Select(head_, backward, PaddedDim(plan_.state_shape().dim));
  if (held() != nullptr) {
    work_.held.Select(plan_, item_, kv_head_, head_, work_.walk);
  }
}

int64_t Pass::OutputIndex(int64_t head, int64_t row) const {
  return problem_.query.RowNumber(batch_, head, row);
}

// Adds a row to what the pass from the end left there, or leaves it there.
void Pass::AddFuture(int64_t head, int64_t row, float* sums) {
  const int64_t channels = plan_.state_shape().value_dim;
  const int64_t place =
      (head - kv_head_ * group_) * problem_.query.shape().rows + row;
  float* future = problem_.output_dtype == DType::kF32
                      ? out_.output.data() + OutputIndex(head, row) * channels
                      : progress_.future.data() + place * channels;
  float& ones = progress_.future_ones[place];
  if (work_.walk.backward()) {
    std::copy_n(sums, channels, future);
    ones = plan_.ones() ? sums[channels] : 0;
    return;
  }
  for (int64_t c = 0; c < channels; ++c) sums[c] += future[c];
  if (plan_.ones()) sums[channels] += ones;
}

void Pass::WriteRow(int64_t head, int64_t row, const float* values) const {
  const int64_t index = OutputIndex(head, row);
  const int64_t channels = plan_.state_shape().value_dim;
  if (problem_.output_dtype == DType::kF32) {
    std::copy_n(values, channels, out_.output.data() + index * channels);
  } else {
    HalvesFromFloats(problem_.output_dtype, values, channels,
                     out_.halves.data() + index * channels);
  }
}

void Pass::Finish(const LinearTile::Place& place) {
  if (held() != nullptr) {
    work_.tile.AddHeld(plan_, place, work_.walk, work_.held);
  }
  const int64_t channels = plan_.state_shape().value_dim;
  for (int64_t r = 0; r < place.rows; ++r) {
    float* sums = work_.tile.row(r);
    const int64_t row = work_.walk.QueryRow(place.query + r);
    if (plan_.problem().options.bidirectional) {
      AddFuture(place.head, row, sums);
      if (work_.walk.backward()) continue;
    }
    const float ones = plan_.ones() ? sums[channels] : 0;
    work_.normaliser.Divide(place.query + r, ones, sums);
    WriteRow(place.head, row, sums);
  }
}

// Rows that see nothing at all.
void Pass::EmptyRows(int64_t first, int64_t last) {
  for (int64_t h = kv_head_ * group_; h < (kv_head_ + 1) * group_; ++h) {
    for (int64_t i = first; i < last; i += kMaxTileRows) {
      const LinearTile::Place place{
          .batch = batch_,
          .head = h,
          .query = i,
          .rows = std::min<int64_t>(kMaxTileRows, last - i)};
      work_.tile.Clear(plan_, place.rows);
      Finish(place);
    }
  }
}

absl::Status Pass::BehindRows(int64_t first, int64_t last, int64_t reference,
                              const LinearSums& sums) {
  for (int64_t h = kv_head_ * group_; h < (kv_head_ + 1) * group_; ++h) {
    for (int64_t i = first; i < last; i += kMaxTileRows) {
      if (cancelled()) return absl::CancelledError("cancelled between chunks");
      const LinearTile::Place place{
          .batch = batch_,
          .head = h,
          .query = i,
          .rows = std::min<int64_t>(kMaxTileRows, last - i)};
      absl::Status status = work_.tile.Behind(
          plan_, place, work_.walk, work_.decays, reference, sums, *work_.gemm);
      if (!status.ok()) return status;
      Finish(place);
    }
  }
  return absl::OkStatus();
}

absl::Status Pass::InsideRows(int64_t first, int64_t last,
                              const LinearSums& sums) {
  for (int64_t h = kv_head_ * group_; h < (kv_head_ + 1) * group_; ++h) {
    for (int64_t i = first; i < last; i += kMaxTileRows) {
      if (cancelled()) return absl::CancelledError("cancelled between chunks");
      const LinearTile::Place place{
          .batch = batch_,
          .head = h,
          .query = i,
          .rows = std::min<int64_t>(kMaxTileRows, last - i)};
      absl::Status status = work_.tile.Inside(plan_, place, work_.walk,
                                              work_.chunk, sums, *work_.gemm);
      if (!status.ok()) return status;
      Finish(place);
    }
  }
  return absl::OkStatus();
}

// Queries before the first key, and the sums brought to it.
absl::Status Pass::Begin(LinearProgress::State& progress) {
  LinearWalk& walk = work_.walk;
  progress.started = true;
  LoadState(here(), progress.sums);
  int64_t last = 0;
  while (last < walk.queries() && walk.Seen(last) == 0) ++last;
  progress.query = last;
  if (!walk.has_start()) {
    EmptyRows(0, last);
    return absl::OkStatus();
  }
  absl::Status status = BehindRows(0, last, -1, progress.sums);
  if (!status.ok() || walk.keys() == 0) return status;
  std::vector<double> lags(std::max(1, walk.sources()));
  for (int s = 0; s < walk.sources(); ++s) lags[s] = walk.KeyLagOfStart(s, 0);
  progress.sums.Step(work_.decays, lags.data(), nullptr, {}, nullptr);
  return absl::OkStatus();
}

// Lags of every source from one key to another.
const double* Pass::LagsFrom(int64_t from, int64_t to,
                             std::vector<double>& lags) const {
  lags.resize(std::max(1, work_.walk.sources()));
  for (int s = 0; s < work_.walk.sources(); ++s) {
    lags[s] = work_.walk.KeyLag(s, to, from);
  }
  return lags.data();
}

absl::Status Pass::RunChunk(LinearProgress::State& progress) {
  LinearWalk& walk = work_.walk;
  LinearChunk& chunk = work_.chunk;
  const int64_t key = progress.key;
  const int64_t end = std::min(key + kLinearChunk, walk.keys());
  const int64_t first = progress.query;
  int64_t inside = first;
  while (inside < walk.queries() && walk.Seen(inside) <= end &&
         (walk.Seen(inside) < end || walk.NotAfter(inside, end - 1))) {
    ++inside;
  }
  int64_t behind = inside;
  while (behind < walk.queries() && walk.Seen(behind) <= end) ++behind;

  chunk.Load(plan_, batch_, kv_head_, key, inside > first ? inside - 1 : -1,
             walk, work_.decays, held());
  work_.normaliser.Follow(key, end - key);
  absl::Status status = InsideRows(first, inside, progress.sums);
  if (!status.ok()) return status;
  if (status = chunk.Sum(*work_.gemm); !status.ok()) return status;
  // Rows behind the chunk, and a state, read the sums at its last key.
  const bool more = end < walk.keys();
  const bool stop = behind > inside || !more;
  const int64_t to = stop ? end - 1 : end;
  progress.sums.Step(work_.decays, LagsFrom(key, to, work_.lags),
                     LagsFrom(end - 1, to, work_.late_lags), chunk.late(),
                     chunk.delta());
  for (const auto& [channel, at] : chunk.non_finite()) {
    progress.sums.Spoil(channel);
  }
  if (stop) {
    status = BehindRows(inside, behind, end - 1, progress.sums);
    if (!status.ok()) return status;
    if (more) {
      progress.sums.Step(work_.decays, LagsFrom(end - 1, end, work_.lags),
                         nullptr, {}, nullptr);
    }
  }
  progress.key = end;
  progress.query = behind;
  return absl::OkStatus();
}

absl::Status Pass::Segment(LinearProgress::State& progress, int64_t last_key) {
  if (!progress.started) {
    if (absl::Status status = Begin(progress); !status.ok()) return status;
  }
  while (progress.key < std::min(last_key, work_.walk.keys())) {
    if (cancelled()) return absl::CancelledError("cancelled between chunks");
    if (absl::Status status = RunChunk(progress); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Pass::Forward() {
  LinearProgress::State& progress = progress_;
  Select(false);
  const LinearStateShape& shape = plan_.state_shape();
  if (!progress.started && shape.decay_sum && work_.walk.has_start()) {
    progress.decay_sum =
        plan_.problem()
            .initial_state->decay_sum[item_ * shape.kv_heads + kv_head_];
  }
  work_.normaliser.Select(plan_, head_, work_.walk, progress.decay_sum);
  const int64_t last = progress.key + plan_.chunks_per_segment() * kLinearChunk;
  if (absl::Status status = Segment(progress, last); !status.ok()) {
    return status;
  }
  progress.decay_sum = work_.normaliser.decay_sum();
  if (progress.key >= work_.walk.keys() && out_.state != nullptr &&
      out_.state->keys[item_] > 0) {
    StoreState(here(), progress.sums, work_.normaliser, work_.held,
               *out_.state);
  }
  return absl::OkStatus();
}

absl::Status Pass::Backward() {
  Select(true);
  // Divides nothing before the forward pass, but follows every chunk.
  work_.normaliser.Select(plan_, head_, work_.walk, 0);
  const Shape4& q = problem_.query.shape();
  progress_.future_ones.resize(group_ * q.rows);
  if (problem_.output_dtype != DType::kF32) {
    progress_.future.resize(group_ * q.rows * plan_.state_shape().value_dim);
  }
  LinearProgress::State backward;
  return Segment(backward, std::numeric_limits<int64_t>::max());
}

}  // namespace

LinearProgress::LinearProgress() : state_(std::make_unique<State>()) {}
LinearProgress::~LinearProgress() = default;
LinearProgress::LinearProgress(LinearProgress&&) noexcept = default;

LinearWorkspace::LinearWorkspace() : state_(std::make_unique<State>()) {}
LinearWorkspace::~LinearWorkspace() = default;

absl::StatusOr<std::unique_ptr<LinearWorkspace>> LinearWorkspace::Create() {
  absl::StatusOr<std::unique_ptr<TileGemm>> gemm = TileGemm::Create();
  if (!gemm.ok()) return gemm.status();
  std::unique_ptr<LinearWorkspace> workspace(new LinearWorkspace);
  workspace->state_->gemm = *std::move(gemm);
  return workspace;
}

absl::Status RunLinearSegment(const LinearPlan& plan, int64_t head,
                              LinearProgress& progress,
                              LinearWorkspace& workspace,
                              const LinearBuffers& out,
                              const std::atomic<bool>* cancelled) {
  const FlushDenormals flush;
  Pass pass(plan, head, progress.state(), workspace.state(), out, cancelled);
  if (plan.problem().options.bidirectional) {
    if (absl::Status status = pass.Backward(); !status.ok()) return status;
  }
  return pass.Forward();
}

void FillEmptyLinearRows(const LinearPlan& plan, const LinearBuffers& out) {
  const AttentionProblem& p = plan.problem().attention;
  const Shape4& q = p.query.shape();
  const int64_t channels = plan.state_shape().value_dim;
  for (int64_t item = 0; item < plan.state_shape().items; ++item) {
    const ItemRows rows = plan.rows().rows(item);
    for (int64_t h = 0; h < q.heads; ++h) {
      for (int64_t i = rows.query_length; i < rows.queries; ++i) {
        const int64_t row = rows.first_query + i;
        const int64_t index = p.query.RowNumber(rows.batch, h, row);
        if (p.output_dtype == DType::kF32) {
          std::fill_n(out.output.data() + index * channels, channels, 0.0f);
        } else {
          std::fill_n(out.halves.data() + index * channels, channels, 0);
        }
      }
    }
  }
}

absl::Status RunLinear(const LinearPlan& plan, LinearWorkspace& workspace,
                       const LinearBuffers& out) {
  FillEmptyLinearRows(plan, out);
  for (int64_t head = 0; head < plan.heads(); ++head) {
    LinearProgress progress;
    for (int64_t segment = 0; segment < plan.segments(); ++segment) {
      absl::Status status =
          RunLinearSegment(plan, head, progress, workspace, out);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace attnd
