// Blocks, biases and absolute parts of an encoding: from the wire's words to
// the kernels'. Each adds its violations below `path` and then returns nothing.
#ifndef ATTND_SERVER_BLOCK_READER_H_
#define ATTND_SERVER_BLOCK_READER_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "attnd/v1/encoding.pb.h"
#include "google/protobuf/message.h"
#include "kernels/encoding_spec.h"
#include "server/violations.h"

namespace attnd::server {

std::optional<Block> ReadBlock(const v1::Block& in, const std::string& path,
                               Violations& violations);

std::optional<BiasTerm> ReadBias(const v1::Bias& in, const std::string& path,
                                 Violations& violations);

std::optional<AbsolutePart> ReadAbsolute(const v1::Absolute& in,
                                         const std::string& path,
                                         Violations& violations);

std::optional<QueryTemperature> ReadTemperature(const v1::QueryTemperature& in,
                                                const std::string& path,
                                                Violations& violations);

// Refuses a `what` of which no kind is given, and names the kinds there are.
void AddNoKind(const google::protobuf::Message& in, absl::string_view what,
               const std::string& path, Violations& violations);

// Refuses UNSPECIFIED and unknown layouts.
PairLayout ReadLayout(v1::PairLayout in, const std::string& path,
                      Violations& violations);

// RoPE with its scalings and axes; of block_reader.h's parts the largest.
std::optional<RotaryBlock> ReadRotary(const v1::Rotary& in,
                                      const std::string& path,
                                      Violations& violations);

// The query temperature that a Hugging Face block asks for.
std::optional<QueryTemperature> ReadRopeTemperature(const v1::Rotary& in,
                                                    const std::string& path,
                                                    Violations& violations);

}  // namespace attnd::server

#endif  // ATTND_SERVER_BLOCK_READER_H_
