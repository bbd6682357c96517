// Random problems through the kernels against the double-precision reference:
// the first eight bytes are the seed, the ninth says how large and which masks,
// the tenth asks for a random encoding where its first bit is set, and for the
// linear kind where its second is.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/kernels/answer.h"
#include "tests/kernels/encoded_judge.h"
#include "tests/kernels/random_encoding.h"
#include "tests/kernels/random_linear.h"
#include "tests/kernels/random_problem.h"

// The accuracy contract is about rounding, which adds up beyond it now and
// then, by a third at most (kernels/README.md); what is wrong is far off.
constexpr double kSlack = 1.5;

namespace {

void Expect(const std::string& why) {
  if (why.empty()) return;
  std::fprintf(stderr, "%s\n", why.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attnd::testing;  // NOLINT(google-build-using-namespace)
  uint64_t seed = 0;
  std::memcpy(&seed, data, size < sizeof(seed) ? size : sizeof(seed));
  const uint8_t choice = size > sizeof(seed) ? data[sizeof(seed)] : 0;
  const bool any_encoding = size > 9 && (data[9] & 1) != 0;
  if (size > 9 && (data[9] & 2) != 0) {
    Expect(JudgeEncoded(RandomLinearCase(seed), kSlack));
    return 0;
  }
  // The reference multiplies matrices of the head dimension for every pair.
  const RandomLimits limits = {.pairs = 500 + 100 * (choice >> 1),
                               .max_rows = 8 + (choice >> 1),
                               .max_dim = any_encoding ? 40 : 130};
  ProblemSpec spec = (choice & 1) != 0 ? RandomMaskedProblem(seed, limits)
                                       : RandomProblem(seed, limits);
  if (any_encoding) SetRandomEncoding(spec);
  Expect(any_encoding ? JudgeEncoded(spec, kSlack) : Judge(spec, kSlack));
  return 0;
}
