// Checks the answers that a run kept.
#ifndef ATTND_CLIENT_LOAD_VERIFY_KEPT_H_
#define ATTND_CLIENT_LOAD_VERIFY_KEPT_H_

#include <atomic>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/load/runner.h"
#include "client/load/verification.h"

namespace attnd::client {

// Requests that are saved at most; the rest are counted.
inline constexpr int kSavedRequests = 5;
// "PREFIX-1.pb", numbers from 1.
std::string SavedRequestPath(const std::string& prefix, int number);

// `requests` by the numbers of the kept answers. The request of each of the
// first few mismatches is written to "PREFIX-1.pb", ..., for `attnctl attend
// --replay`; where it cannot be, the mismatch says so. A server that is not
// reached is not asked again: the answers that need it are unverifiable.
Verification VerifyKept(std::vector<KeptAnswer> kept,
                        const std::vector<const v1::AttendRequest*>& requests,
                        const Client& client, const std::string& prefix,
                        const std::atomic<bool>* stop);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_VERIFY_KEPT_H_
