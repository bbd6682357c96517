#include "client/load/array_work.h"

#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/attnctl/npy_tensors.h"
#include "client/files.h"
#include "client/npy.h"
#include "client/npz.h"

namespace attnd::client {
namespace {

constexpr const char* kTensors[] = {"query", "key", "value"};
constexpr const char* kTimes[] = {"query_time", "key_time"};

using Arrays = std::map<std::string, NpyArray>;

bool IsArchive(const std::string& path) { return absl::EndsWith(path, ".npz"); }

absl::Status About(const std::string& path, const std::string& name,
                   const absl::Status& status) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", name, ": ", status.message()));
}

absl::StatusOr<Arrays> ReadArchive(const std::string& path) {
  const absl::StatusOr<std::string> file = ReadFile(path, kMaxArrayBytes);
  if (!file.ok()) return file.status();
  absl::StatusOr<Arrays> arrays = ParseNpz(*file, kMaxArrayBytes);
  if (arrays.ok()) return arrays;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", arrays.status().message()));
}

std::string FileOf(const std::string& prefix, const char* name) {
  return absl::StrCat(prefix, ".", name, ".npy");
}

absl::StatusOr<Arrays> ReadFiles(const std::string& prefix) {
  Arrays arrays;
  for (const char* name : kTensors) {
    absl::StatusOr<NpyArray> array = ReadNpy(FileOf(prefix, name));
    if (!array.ok()) return array.status();
    arrays[name] = *std::move(array);
  }
  for (const char* name : kTimes) {
    absl::StatusOr<NpyArray> array = ReadNpy(FileOf(prefix, name));
    if (absl::IsNotFound(array.status())) continue;
    if (!array.ok()) return array.status();
    arrays[name] = *std::move(array);
  }
  return arrays;
}

}  // namespace

std::vector<std::string> ArrayFiles(const std::string& path) {
  if (IsArchive(path)) return {path};
  std::vector<std::string> files;
  for (const char* name : kTensors) files.push_back(FileOf(path, name));
  for (const char* name : kTimes) files.push_back(FileOf(path, name));
  return files;
}

absl::StatusOr<std::vector<v1::AttendRequest>> ReadArrayRequests(
    const std::string& path, const std::string& unit, const Work& work) {
  const absl::StatusOr<Arrays> arrays =
      IsArchive(path) ? ReadArchive(path) : ReadFiles(path);
  if (!arrays.ok()) return arrays.status();
  v1::AttendRequest request;
  const std::pair<const char*, v1::Tensor*> tensors[] = {
      {"query", request.mutable_query()},
      {"key", request.mutable_key()},
      {"value", request.mutable_value()}};
  for (const auto& [name, tensor] : tensors) {
    const auto found = arrays->find(name);
    if (found == arrays->end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": no array '", name, "', expected query, key and value"));
    }
    absl::StatusOr<v1::Tensor> made =
        TensorFromNpy(found->second, v1::LAYOUT_BHLD);
    if (!made.ok()) return About(path, name, made.status());
    *tensor = *std::move(made);
  }
  for (const char* name : kTimes) {
    const auto found = arrays->find(name);
    if (found == arrays->end()) continue;
    absl::StatusOr<v1::TimeAxis> axis = TimeAxisFromNpy(found->second, unit);
    if (!axis.ok()) return About(path, name, axis.status());
    *(std::string(name) == "query_time" ? request.mutable_query_time()
                                        : request.mutable_key_time()) =
        *std::move(axis);
  }
  Work choices = work;
  choices.ragged = 0;
  SetChoices(choices, &request);
  request.set_request_id("load 0");
  return std::vector<v1::AttendRequest>{std::move(request)};
}

}  // namespace attnd::client
