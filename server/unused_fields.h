// What an encoding says and no answer would show: a setting that is dropped
// without a word is a wrong answer to whoever wrote it.
#ifndef ATTND_SERVER_UNUSED_FIELDS_H_
#define ATTND_SERVER_UNUSED_FIELDS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "attnd/v1/encoding.pb.h"
#include "server/violations.h"

namespace attnd::server {

// Adds enum values that this schema does not know, wherever they stand in the
// encoding: a newer client means something by them. False if there are any;
// nothing else can then be said about the encoding.
bool CheckEnums(const v1::Encoding& encoding, absl::string_view prefix,
                Violations& violations);

// Adds settings of the whole encoding that no part of it would read, and terms
// that would count the request's gates twice. What a single block, bias or
// absolute part would not read is refused where it is read (block_reader.h).
void CheckUnused(const v1::Encoding& encoding, absl::string_view prefix,
                 Violations& violations);

// Adds where a block is driven by what its clock does not have.
void CheckDrive(const v1::Block& block, const std::string& path,
                Violations& violations);

}  // namespace attnd::server

#endif  // ATTND_SERVER_UNUSED_FIELDS_H_
