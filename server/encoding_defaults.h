// Definitions of encodings with their defaults written out.
#ifndef ATTND_SERVER_ENCODING_DEFAULTS_H_
#define ATTND_SERVER_ENCODING_DEFAULTS_H_

#include "attnd/v1/encoding.pb.h"

namespace attnd::server {

// The same encoding, every default that does not depend on sizes written out
// where something reads it. Blocks of Hugging Face's stay as they came.
v1::Encoding WithDefaults(v1::Encoding encoding);

}  // namespace attnd::server

#endif  // ATTND_SERVER_ENCODING_DEFAULTS_H_
