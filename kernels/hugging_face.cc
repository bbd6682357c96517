#include "kernels/hugging_face.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/field_checks.h"

namespace attnd {
namespace {

constexpr std::array<const char*, 7> kTypes = {
    "default",  "linear", "dynamic",     "yarn",
    "longrope", "llama3", "proportional"};

std::string KnownTypes() {
  return absl::StrCat("one of ", absl::StrJoin(kTypes, ", "), ", su, mrope");
}

std::string Canonical(const std::string& type) {
  if (type == "su") return "longrope";
  if (type == "mrope") return "default";
  return type;
}

// Keys that are there, in the order of the struct, without those that every
// type reads.
struct Key {
  const char* name;
  bool present;
};
std::vector<Key> KeysOf(const HuggingFaceRope& rope) {
  return {{"factor", rope.factor.has_value()},
          {"original_max_position_embeddings",
           rope.original_max_position_embeddings.has_value()},
          {"beta_fast", rope.beta_fast.has_value()},
          {"beta_slow", rope.beta_slow.has_value()},
          {"attention_factor", rope.attention_factor.has_value()},
          {"mscale", rope.mscale.has_value()},
          {"mscale_all_dim", rope.mscale_all_dim.has_value()},
          {"truncate", rope.truncate.has_value()},
          {"short_factor", !rope.short_factor.empty()},
          {"long_factor", !rope.long_factor.empty()},
          {"low_freq_factor", rope.low_freq_factor.has_value()},
          {"high_freq_factor", rope.high_freq_factor.has_value()},
          {"long_mscale", rope.long_mscale.has_value()},
          {"short_mscale", rope.short_mscale.has_value()}};
}

// Which of them a type reads.
std::vector<std::string> KeysReadBy(const std::string& type) {
  if (type == "linear" || type == "proportional") return {"factor"};
  if (type == "dynamic") return {"factor", "original_max_position_embeddings"};
  if (type == "yarn") {
    return {"factor",           "original_max_position_embeddings",
            "beta_fast",        "beta_slow",
            "attention_factor", "mscale",
            "mscale_all_dim",   "truncate"};
  }
  if (type == "longrope") {
    return {"factor",           "original_max_position_embeddings",
            "attention_factor", "short_factor",
            "long_factor",      "long_mscale",
            "short_mscale"};
  }
  if (type == "llama3") {
    return {"factor", "original_max_position_embeddings", "low_freq_factor",
            "high_freq_factor"};
  }
  return {};
}

class Converter {
 public:
  Converter(const HuggingFaceRope& rope, std::string path)
      : rope_(rope), path_(std::move(path)) {}

  absl::StatusOr<RotaryBlock> Run() {
    absl::Status status = FindType();
    if (status.ok()) status = CheckKeys();
    if (status.ok()) status = CheckNumbers();
    if (status.ok()) status = Scale();
    if (status.ok()) status = Divide();
    if (!status.ok()) return status;
    block_.base = rope_.rope_theta.value_or(10000);
    block_.layout = PairLayout::kHalfSplit;
    return block_;
  }

 private:
  absl::Status FindType() {
    const std::string type = Canonical(rope_.type);
    type_ = Canonical(rope_.rope_type);
    if (type_.empty()) {
      type_ = type.empty() ? "default" : type;
    } else if (!type.empty() && type != type_) {
      return Refuse(path_ + ".type", rope_.type,
                    absl::StrCat("the same as rope_type, ", rope_.rope_type));
    }
    if (std::find(kTypes.begin(), kTypes.end(), type_) != kTypes.end()) {
      return absl::OkStatus();
    }
    return Refuse(path_ + (rope_.rope_type.empty() ? ".type" : ".rope_type"),
                  absl::StrCat("\"", type_, "\""), KnownTypes());
  }

  absl::Status CheckKeys() const {
    const std::vector<std::string> read = KeysReadBy(type_);
    for (const Key& key : KeysOf(rope_)) {
      if (!key.present) continue;
      if (std::find(read.begin(), read.end(), key.name) != read.end()) continue;
      // The temperature of queries reads it, whatever the type.
      if (rope_.llama_4_scaling_beta.has_value() &&
          absl::string_view(key.name) == "original_max_position_embeddings") {
        continue;
      }
      if (rope_.rope_type.empty() && rope_.type.empty()) {
        return Missing("rope_type",
                       absl::StrCat(KnownTypes(), ", beside ", key.name));
      }
      return Refuse(
          absl::StrCat(path_, ".", key.name), "given",
          absl::StrCat("only what rope_type \"", type_, "\" reads",
                       read.empty() ? "" : ": ", absl::StrJoin(read, ", ")));
    }
    return absl::OkStatus();
  }

  absl::Status CheckNumbers() const {
    const std::pair<const char*, std::optional<double>> positive[] = {
        {"rope_theta", rope_.rope_theta},
        {"factor", rope_.factor},
        {"original_max_position_embeddings",
         rope_.original_max_position_embeddings},
        {"max_position_embeddings", rope_.max_position_embeddings},
        {"beta_fast", rope_.beta_fast},
        {"beta_slow", rope_.beta_slow},
        {"attention_factor", rope_.attention_factor},
        {"low_freq_factor", rope_.low_freq_factor},
        {"high_freq_factor", rope_.high_freq_factor},
        {"long_mscale", rope_.long_mscale},
        {"short_mscale", rope_.short_mscale},
        {"partial_rotary_factor", rope_.partial_rotary_factor}};
    for (const auto& [name, value] : positive) {
      if (!value.has_value()) continue;
      absl::Status status =
          CheckPositive(absl::StrCat(path_, ".", name), *value);
      if (!status.ok()) return status;
    }
    // 0 is as good as absent to the library.
    for (const auto& [name, value] :
         {std::pair("mscale", rope_.mscale),
          std::pair("mscale_all_dim", rope_.mscale_all_dim)}) {
      absl::Status status =
          CheckAtLeast(absl::StrCat(path_, ".", name), value.value_or(0), 0);
      if (!status.ok()) return status;
    }
    if (rope_.partial_rotary_factor.value_or(1) > 1) {
      return Refuse(path_ + ".partial_rotary_factor",
                    *rope_.partial_rotary_factor, "in (0, 1]");
    }
    return absl::OkStatus();
  }

  absl::Status Missing(const char* key, const std::string& why) const {
    return Refuse(absl::StrCat(path_, ".", key), "missing", why);
  }

  // A key that a type cannot do without, and what to write there.
  struct Needed {
    const char* key;
    bool present;
    const char* what;
  };
  // All that are missing in one refusal.
  absl::Status RequireAll(const std::vector<Needed>& keys) const {
    const char* first = nullptr;
    std::string why;
    for (const Needed& needed : keys) {
      if (needed.present) continue;
      if (first == nullptr) {
        first = needed.key;
        why = needed.what;
      } else {
        absl::StrAppend(&why, "; also ", needed.key, ": ", needed.what);
      }
    }
    return first == nullptr ? absl::OkStatus() : Missing(first, why);
  }

  Needed NeededOriginal() const {
    return {"original_max_position_embeddings",
            rope_.original_max_position_embeddings.has_value() ||
                rope_.max_position_embeddings.has_value(),
            "the length before scaling, or max_position_embeddings of the "
            "model's config.json"};
  }
  Needed NeededFactor(bool amplitude_given) const {
    return {"factor",
            amplitude_given || rope_.factor.has_value() ||
                (rope_.original_max_position_embeddings.has_value() &&
                 rope_.max_position_embeddings.has_value()),
            "a number, or both max_position_embeddings and "
            "original_max_position_embeddings, whose ratio it is"};
  }

  // What a rotary_type needs besides the numbers, put into block_.scaling.
  absl::Status Scale() {
    if (type_ == "default") return absl::OkStatus();
    if (type_ == "linear") return ScaleLinear();
    if (type_ == "dynamic") return ScaleDynamic();
    if (type_ == "yarn") return ScaleYarn();
    if (type_ == "longrope") return ScaleLongRope();
    if (type_ == "llama3") return ScaleLlama3();
    block_.scaling =
        ProportionalScaling{.fraction = rope_.partial_rotary_factor.value_or(1),
                            .factor = rope_.factor.value_or(1)};
    return absl::OkStatus();
  }

  absl::Status ScaleLinear() {
    if (!rope_.factor) return Missing("factor", "a number > 0");
    block_.scaling = LinearScaling{.factor = *rope_.factor};
    return absl::OkStatus();
  }

  absl::Status ScaleDynamic() {
    absl::Status status = RequireAll(
        {{"factor", rope_.factor.has_value(), "a number >= 1"},
         {"max_position_embeddings", rope_.max_position_embeddings.has_value(),
          "that of the model's config.json, beside this block"}});
    if (!status.ok()) return status;
    status = CheckAtLeast(path_ + ".factor", *rope_.factor, 1);
    if (!status.ok()) return status;
    const double original = rope_.original_max_position_embeddings.value_or(
        *rope_.max_position_embeddings);
    if (original != *rope_.max_position_embeddings) {
      return Refuse(path_ + ".original_max_position_embeddings", original,
                    absl::StrCat("max_position_embeddings, ",
                                 *rope_.max_position_embeddings,
                                 ": dynamic reads no other"));
    }
    block_.scaling =
        DynamicNtkScaling{.factor = *rope_.factor, .original_length = original};
    return absl::OkStatus();
  }

  // factor and original length of yarn and longrope, once these are there;
  // factor is 0 when nothing tells it.
  void FindLengths(double& original, double& factor) const {
    original = rope_.original_max_position_embeddings
                   ? *rope_.original_max_position_embeddings
                   : *rope_.max_position_embeddings;
    if (rope_.factor) {
      factor = *rope_.factor;
    } else if (rope_.original_max_position_embeddings &&
               rope_.max_position_embeddings) {
      factor = *rope_.max_position_embeddings / original;
    } else {
      factor = 0;
    }
  }

  absl::Status ScaleYarn() {
    YarnScaling yarn{.beta_fast = rope_.beta_fast.value_or(32),
                     .beta_slow = rope_.beta_slow.value_or(1),
                     .attention_factor = rope_.attention_factor,
                     .mscale = rope_.mscale,
                     .mscale_all_dim = rope_.mscale_all_dim,
                     .truncate = rope_.truncate.value_or(true)};
    absl::Status status = RequireAll({NeededOriginal(), NeededFactor(false)});
    if (!status.ok()) return status;
    FindLengths(yarn.original_length, yarn.factor);
    block_.scaling = yarn;
    return CheckAtLeast(path_ + ".factor", yarn.factor, 1);
  }

  absl::Status ScaleLongRope() {
    LongRopeScaling scaling{.short_factor = rope_.short_factor,
                            .long_factor = rope_.long_factor,
                            .attention_factor = rope_.attention_factor};
    constexpr char kList[] = "a list, one divisor per plane";
    const bool amplitude_given =
        rope_.attention_factor || rope_.long_mscale || rope_.short_mscale;
    absl::Status status = FirstRefusal(
        RequireAll({{"short_factor", !rope_.short_factor.empty(), kList},
                    {"long_factor", !rope_.long_factor.empty(), kList},
                    NeededOriginal(),
                    NeededFactor(amplitude_given)}),
        CheckEach(path_ + ".short_factor", rope_.short_factor, CheckPositive),
        CheckEach(path_ + ".long_factor", rope_.long_factor, CheckPositive),
        CheckCount(path_ + ".long_factor", rope_.long_factor.size(),
                   rope_.short_factor.size(), "as many as short_factor"),
        FindAmplitude(scaling.attention_factor));
    if (!status.ok()) return status;
    FindLengths(scaling.original_length, scaling.factor);
    block_.scaling = scaling;
    return absl::OkStatus();
  }

  // The amplitude that long_mscale and short_mscale stand for.
  absl::Status FindAmplitude(std::optional<double>& amplitude) const {
    const std::optional<double>&up = rope_.long_mscale,
          &to = rope_.short_mscale;
    if (!up && !to) return absl::OkStatus();
    if (!up) return Missing("long_mscale", "a number > 0 beside short_mscale");
    if (!to) return Missing("short_mscale", "a number > 0 beside long_mscale");
    if (amplitude) {
      return Refuse(path_ + ".attention_factor", "given",
                    "none beside long_mscale and short_mscale, which take its "
                    "place");
    }
    if (*up != *to) {
      return Refuse(path_ + ".long_mscale", *up,
                    absl::StrCat("short_mscale, ", *to,
                                 ": one amplitude for all lengths; write two "
                                 "encodings with attention_factor, one for "
                                 "items up to the original length"));
    }
    amplitude = *up;
    return absl::OkStatus();
  }

  absl::Status ScaleLlama3() {
    absl::Status status = RequireAll(
        {{"factor", rope_.factor.has_value(), "a number > 0"},
         {"low_freq_factor", rope_.low_freq_factor.has_value(), "a number > 0"},
         {"high_freq_factor", rope_.high_freq_factor.has_value(),
          "a number >= low_freq_factor"},
         {"original_max_position_embeddings",
          rope_.original_max_position_embeddings.has_value(), "a number > 0"}});
    if (!status.ok()) return status;
    block_.scaling = Llama3Scaling{
        .factor = *rope_.factor,
        .low_freq_factor = *rope_.low_freq_factor,
        .high_freq_factor = *rope_.high_freq_factor,
        .original_length = *rope_.original_max_position_embeddings};
    if (*rope_.high_freq_factor < *rope_.low_freq_factor) {
      return Refuse(
          path_ + ".high_freq_factor", *rope_.high_freq_factor,
          absl::StrCat(">= low_freq_factor, ", *rope_.low_freq_factor));
    }
    return absl::OkStatus();
  }

  // Which channels turn, and along which coordinate.
  absl::Status Divide() {
    if (type_ != "proportional") {
      block_.rotary_fraction = rope_.partial_rotary_factor.value_or(1);
    }
    const std::optional<bool>&dealt = rope_.mrope_interleaved,
          &also_dealt = rope_.interleaved;
    if (dealt && also_dealt && *dealt != *also_dealt) {
      const auto text = [](bool b) { return b ? "true" : "false"; };
      return Refuse(
          path_ + ".interleaved", text(*also_dealt),
          absl::StrCat("the same as mrope_interleaved, ", text(*dealt)));
    }
    if (rope_.mrope_section.empty()) {
      if (rope_.type == "mrope" || rope_.rope_type == "mrope" || dealt ||
          also_dealt) {
        return Missing("mrope_section", "planes per coordinate t, h, w");
      }
      return absl::OkStatus();
    }
    block_.axes = {.sections = rope_.mrope_section,
                   .order = dealt.value_or(also_dealt.value_or(false))
                                ? AxisSections::Order::kInterleaved
                                : AxisSections::Order::kContiguous};
    return CheckNoneNegative(path_ + ".mrope_section", rope_.mrope_section);
  }

  const HuggingFaceRope& rope_;
  const std::string path_;
  std::string type_;
  RotaryBlock block_;
};

}  // namespace

absl::StatusOr<RotaryBlock> RotaryFromHuggingFace(const HuggingFaceRope& rope,
                                                  const std::string& path) {
  return Converter(rope, path).Run();
}

absl::StatusOr<std::optional<QueryTemperature>> TemperatureFromHuggingFace(
    const HuggingFaceRope& rope, const std::string& path) {
  const double beta = rope.llama_4_scaling_beta.value_or(0);
  absl::Status status = CheckFinite(path + ".llama_4_scaling_beta", beta);
  if (!status.ok()) return status;
  if (beta == 0) return std::nullopt;
  if (!rope.original_max_position_embeddings) {
    return Refuse(path + ".original_max_position_embeddings", "missing",
                  "the length that llama_4_scaling_beta counts in");
  }
  return QueryTemperature{.llama4 = true,
                          .length = *rope.original_max_position_embeddings,
                          .scale = beta};
}

}  // namespace attnd
