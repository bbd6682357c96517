#include "server/schedule.h"

#include <algorithm>
#include <tuple>

namespace attnd::server {

bool Schedule::Before::operator()(const Schedulable* a,
                                  const Schedulable* b) const {
  return std::tuple(-a->place_.priority, a->deadline_, a->number_) <
         std::tuple(-b->place_.priority, b->deadline_, b->number_);
}

Schedulable* Schedule::top() const {
  const Tenant* best = nullptr;
  for (const auto& [id, tenant] : tenants_) {
    if (tenant.jobs.empty()) continue;
    if (best == nullptr || tenant.used < best->used) best = &tenant;
  }
  return *best->jobs.begin();
}

void Schedule::Add(Schedulable& job) {
  Tenant& tenant = tenants_[job.place_.tenant];
  if (tenant.jobs.empty()) {
    tenant.used =
        std::max(tenant.used, clock_ - kCreditSeconds / job.place_.weight);
  }
  jobs_ += tenant.jobs.insert(&job).second;
}

void Schedule::Remove(Schedulable& job) {
  jobs_ -= static_cast<int64_t>(tenants_[job.place_.tenant].jobs.erase(&job));
}

void Schedule::Charge(const Schedulable& job, double seconds) {
  Tenant& tenant = tenants_[job.place_.tenant];
  clock_ = std::max(clock_, tenant.used);
  tenant.used += seconds / job.place_.weight;
}

}  // namespace attnd::server
