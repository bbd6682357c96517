// One encoding, from its wire form to what the kernels take.
#ifndef ATTND_SERVER_NAMED_ENCODING_H_
#define ATTND_SERVER_NAMED_ENCODING_H_

#include <atomic>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attnd/v1/encoding.pb.h"
#include "kernels/encoder.h"
#include "kernels/generator.h"
#include "server/violations.h"

namespace attnd::server {

// The encoding without blocks and biases; always there.
inline constexpr char kNopeName[] = "nope";

// One encoding, checked as far as it can be without sizes.
struct NamedEncoding {
  std::string name;
  v1::Encoding definition;  // defaults filled in
  EncodingSpec spec;
  // SHA-256 of the definition without its name, hex: equal hashes, equal
  // answers.
  std::string hash;

  bool uses_time() const { return spec.uses_time() || definition.has_preset(); }
};

// What reading an encoding finds out. The eigenvalues of dense blocks take up
// to a quarter of a second each.
enum class EncodingChecks { kAll, kAllButEigenvalues };

// Reads the wire form. Adds every violation below `prefix` ("encodings[1].").
// Does not look at the name. Soon after `stop` becomes true it returns with
// what it has found.
NamedEncoding ReadEncoding(const v1::Encoding& encoding,
                           absl::string_view prefix, Violations& violations,
                           EncodingChecks checks = EncodingChecks::kAll,
                           const std::atomic<bool>* stop = nullptr);

// The spec at given sizes: presets are expanded. INVALID_ARGUMENT when a preset
// does not fit them.
absl::StatusOr<EncodingSpec> SpecFor(const NamedEncoding& encoding,
                                     const EncoderSizes& sizes);

// Sizes to try an encoding with when nothing says which: head dimension 64 or
// what its blocks take, 8 query and kv heads or as many as it has slopes.
EncoderSizes NominalSizes(const EncodingSpec& spec);

// The numbers of an encoding at given sizes, for ListEncodings.
absl::StatusOr<v1::ResolvedEncoding> Resolve(const NamedEncoding& encoding,
                                             const EncoderSizes& sizes);
// What is left to say where they do not fit.
v1::ResolvedEncoding Misfit(const NamedEncoding& encoding,
                            const absl::Status& why);

}  // namespace attnd::server

#endif  // ATTND_SERVER_NAMED_ENCODING_H_
