// The check that a server makes of itself before it says SERVING.
#ifndef ATTND_SERVER_SELF_TEST_H_
#define ATTND_SERVER_SELF_TEST_H_

#include "absl/status/status.h"
#include "kernels/attention.h"
#include "server/encodings.h"

namespace attnd::server {

// Answers one small causal problem on irregular times per encoding through the
// fast path and compares it with the double-precision reference, within the
// accuracy contract of kernels/attention.h. INTERNAL names the encoding. Those
// that are among `passed`, if it is given, are not tested again.
absl::Status SelfTest(const EncodingCatalog& encodings, Workspace& workspace,
                      const EncodingCatalog* passed = nullptr);

}  // namespace attnd::server

#endif  // ATTND_SERVER_SELF_TEST_H_
