// From the symbols of one head to what the loops read.
#ifndef ATTND_KERNELS_ENCODER_BUILDER_H_
#define ATTND_KERNELS_ENCODER_BUILDER_H_

#include "kernels/encoder.h"
#include "kernels/generator.h"

namespace attnd {

// Lays one head's generator out for the loops. What drives it becomes sources
// of the encoder, whose sizes and ratios are set.
HeadEncoder LayOutHead(Encoder& encoder, Generator generator);

}  // namespace attnd

#endif  // ATTND_KERNELS_ENCODER_BUILDER_H_
