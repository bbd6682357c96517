#include "server/machine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace attnd::server {
namespace {

// A made-up /proc and /sys.
class MachineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(::testing::TempDir()) /
            (std::string("machine_") +
             ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  Machine Read(int affinity) { return ReadMachine(root_.string(), affinity); }

  std::filesystem::path root_;
};

TEST_F(MachineTest, QuotaOfTwoOnEightCoresMeansTwo) {
  Write("proc/self/cgroup", "0::/kubepods/pod1/app\n");
  Write("sys/fs/cgroup/kubepods/pod1/app/cpu.max", "200000 100000\n");
  Write("sys/fs/cgroup/kubepods/pod1/cpu.max", "max 100000\n");
  const Machine machine = Read(8);
  ASSERT_TRUE(machine.quota_cpus);
  EXPECT_DOUBLE_EQ(*machine.quota_cpus, 2);
  EXPECT_EQ(machine.DefaultWorkers(), 2);
  EXPECT_NE(machine.Describe().find("2.00 CPUs"), std::string::npos);
}

TEST_F(MachineTest, QuotaBelowOneMeansOne) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(Read(8).DefaultWorkers(), 1);
}

TEST_F(MachineTest, QuotasAreRoundedDown) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/cpu.max", "399000 100000\n");
  EXPECT_EQ(Read(8).DefaultWorkers(), 3);
}

TEST_F(MachineTest, AffinityBoundsWithoutAQuota) {
  EXPECT_EQ(Read(1).DefaultWorkers(), 1);
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/cpu.max", "max 100000\n");
  const Machine machine = Read(4);
  EXPECT_FALSE(machine.quota_cpus);
  EXPECT_EQ(machine.DefaultWorkers(), 4);
}

TEST_F(MachineTest, AncestorsBoundToo) {
  Write("proc/self/cgroup", "0::/a/b/c\n");
  Write("sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n");
  Write("sys/fs/cgroup/a/b/cpu.max", "300000 100000\n");
  Write("sys/fs/cgroup/a/cpu.max", "600000 100000\n");
  Write("sys/fs/cgroup/a/b/c/memory.max", "max\n");
  Write("sys/fs/cgroup/a/memory.max", "1073741824\n");
  const Machine machine = Read(8);
  EXPECT_EQ(machine.DefaultWorkers(), 3);
  EXPECT_EQ(machine.memory_limit_bytes, 1073741824);
  EXPECT_EQ(machine.UsableMemory(), 1073741824);
}

TEST_F(MachineTest, CgroupV1) {
  Write("proc/self/cgroup",
        "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/\n");
  Write("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "250000\n");
  Write("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
  Write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  Write("sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "536870912\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const Machine machine = Read(8);
  ASSERT_TRUE(machine.quota_cpus);
  EXPECT_DOUBLE_EQ(*machine.quota_cpus, 2.5);
  EXPECT_EQ(machine.DefaultWorkers(), 2);
  EXPECT_EQ(machine.memory_limit_bytes, 536870912);
}

// The path is the host's, the mount the container's own directory.
TEST_F(MachineTest, CgroupV1InsideAContainer) {
  Write("proc/self/cgroup", "4:cpu,cpuacct:/docker/0123abc\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  const Machine machine = Read(8);
  ASSERT_TRUE(machine.quota_cpus);
  EXPECT_DOUBLE_EQ(*machine.quota_cpus, 0.5);
}

TEST_F(MachineTest, GarbageIsNoLimit) {
  Write("proc/self/cgroup", "nonsense\n0:\n0::relative\n0::/\n");
  Write("sys/fs/cgroup/cpu.max", "lots\n");
  Write("sys/fs/cgroup/memory.max", "-5\n");
  const Machine machine = Read(3);
  EXPECT_EQ(machine.DefaultWorkers(), 3);
  EXPECT_FALSE(machine.memory_limit_bytes);
}

TEST_F(MachineTest, ReadsTheRealOne) {
  const Machine machine = ReadMachine();
  EXPECT_GE(machine.affinity_cpus, 1);
  EXPECT_GE(machine.DefaultWorkers(), 1);
  EXPECT_GT(machine.UsableMemory(), 0);
  const ProcessUsage usage = ReadProcessUsage();
  EXPECT_GT(usage.resident_bytes, 0);
  EXPECT_GT(usage.threads, 0);
  EXPECT_GT(usage.open_files, 0);
  EXPECT_GT(usage.start_time_seconds, 1e9);
}

TEST_F(MachineTest, ReadsThrottling) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/cpu.stat",
        "usage_usec 5\nnr_throttled 7\nthrottled_usec 2500000\n");
  Write("sys/fs/cgroup/memory.current", "123456\n");
  const ProcessUsage usage = ReadProcessUsage(root_.string());
  EXPECT_EQ(usage.throttled_periods, 7);
  EXPECT_DOUBLE_EQ(usage.throttled_seconds, 2.5);
  EXPECT_EQ(usage.cgroup_memory_bytes, 123456);
}

}  // namespace
}  // namespace attnd::server
