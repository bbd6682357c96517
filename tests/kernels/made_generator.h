// A generator of blocks that are known to be right.
#ifndef ATTND_TESTS_KERNELS_MADE_GENERATOR_H_
#define ATTND_TESTS_KERNELS_MADE_GENERATOR_H_

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "kernels/generator.h"

namespace attnd::testing {

inline Generator Made(const std::vector<Block>& blocks, int dim) {
  auto generator = Generator::Make(blocks, dim);
  EXPECT_TRUE(generator.ok()) << generator.status();
  return generator.ok() ? *std::move(generator) : Generator();
}

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_MADE_GENERATOR_H_
