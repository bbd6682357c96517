// Blind changes to inputs of a fuzzer where libFuzzer is not linked.
#ifndef ATTND_TESTS_FUZZ_MUTATION_H_
#define ATTND_TESTS_FUZZ_MUTATION_H_

#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace attnd::testing {

// One of `corpus`, which is not empty, after 1 to 8 changes: bits and bytes
// replaced, numbers that borders lie at, pieces left out, repeated, or taken
// from another input. At most `most` bytes.
std::string Mutated(const std::vector<std::string>& corpus, size_t most,
                    std::mt19937_64& random);

}  // namespace attnd::testing

#endif  // ATTND_TESTS_FUZZ_MUTATION_H_
