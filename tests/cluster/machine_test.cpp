#include "cluster/machine.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/catch.hpp"

using namespace mrb;
namespace fs = std::filesystem;

namespace {

// A machine made of files, which go away with it.
class Root {
 public:
  Root() : folder_(fs::temp_directory_path() / ("mrb_machine_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    put("/proc/sys/kernel/hostname", "node-7\n");
    put("/proc/sys/kernel/osrelease", "6.1.0-13-amd64\n");
    put("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) 8488C\n\nprocessor\t: 1\n");
    put("/proc/meminfo", "MemTotal:       2097152 kB\nMemFree:  100 kB\n");
    put("/proc/loadavg", "1.25 0.80 0.50 3/512 4711\n");
    put("/sys/devices/system/cpu/online", "0-11\n");
    put("/proc/self/status", "Name:\ttest\nCpus_allowed:\tfff\nCpus_allowed_list:\t0-7,10\n");
  }
  ~Root() { fs::remove_all(folder_); }

  void put(const std::string& file, const std::string& text) const {
    fs::create_directories((folder_.string() + file).substr(0, (folder_.string() + file).rfind('/')));
    std::ofstream(folder_.string() + file) << text;
  }
  Machine read() const { return read_machine(folder_.string()); }

 private:
  fs::path folder_;
};

}  // namespace

TEST_CASE("a machine is read from its files", "[cluster]") {
  const Machine machine = Root().read();
  CHECK(machine.host == "node-7");
  CHECK(machine.kernel == "6.1.0-13-amd64");
  CHECK(machine.processor == "Intel(R) Xeon(R) 8488C");
  CHECK(machine.cores_online == 12);
  CHECK(machine.cpus == "0-7,10");
  CHECK(machine.cores_allowed == 9);  // 0 to 7 and 10; no quota
  CHECK(machine.memory_bytes == 2147483648u);
  CHECK(machine.load_average == 1.25);
}

TEST_CASE("a quota of cgroup version 2 limits the cores", "[cluster]") {
  const Root root;
  root.put("/proc/self/cgroup", "0::/kubepods/pod12/abc\n");
  root.put("/sys/fs/cgroup/kubepods/pod12/abc/cpu.max", "max 100000\n");
  CHECK(root.read().cores_allowed == 9);
  root.put("/sys/fs/cgroup/kubepods/pod12/cpu.max", "450000 100000\n");  // a parent's quota counts: 4.5 cores
  CHECK(root.read().cores_allowed == 4);
  root.put("/sys/fs/cgroup/kubepods/cpu.max", "1600000 100000\n");
  CHECK(root.read().cores_allowed == 4);
}

TEST_CASE("a quota is seen in a container, where the path is the host's", "[cluster]") {
  const Root root;
  root.put("/proc/self/cgroup", "0::/../../abc\n");
  root.put("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  CHECK(root.read().cores_allowed == 2);
  root.put("/proc/self/cgroup", "0::/\n");
  CHECK(root.read().cores_allowed == 2);
}

TEST_CASE("a quota of cgroup version 1 limits the cores", "[cluster]") {
  const Root root;
  root.put("/proc/self/cgroup", "9:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:cpuset:/x\n");
  root.put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  root.put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  CHECK(root.read().cores_allowed == 9);
  root.put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "300000\n");
  root.put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  CHECK(root.read().cores_allowed == 3);
}

TEST_CASE("less than a core is one core, and so is a machine that says nothing", "[cluster]") {
  const Root root;
  root.put("/proc/self/cgroup", "0::/\n");
  root.put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  CHECK(root.read().cores_allowed == 1);
  const Machine nothing = read_machine("/nowhere");
  CHECK(nothing.cores_allowed == 1);
  CHECK(nothing.host.empty());
}

TEST_CASE("this machine has a name, memory, and cores for us", "[cluster]") {
  const Machine machine = read_machine();
  CHECK_FALSE(machine.host.empty());
  CHECK(machine.memory_bytes > 0);
  CHECK(machine.cores_allowed >= 1);
  CHECK(machine.cores_allowed <= machine.cores_online);
}

TEST_CASE("only variables that matter are recorded, and secrets are hidden", "[cluster]") {
  const std::vector<std::string> variables = {
      "FI_PROVIDER=tcp",      "NCCL_DEBUG=INFO",          "HOME=/root",        "AWS_SECRET_ACCESS_KEY=abc",
      "MRB_API_TOKEN=s3cret", "OMPI_MCA_pass_word=x",     "UCX_TLS=tcp,self",  "XFI_PROVIDER=no",
      "OMP_NUM_THREADS=",     "CUDA_VISIBLE_DEVICES=0=1", "OFI_NCCL_secret=y", "FI_WITHOUT_VALUE"};
  const std::map<std::string, std::string> expected = {
      {"FI_PROVIDER", "tcp"},          {"NCCL_DEBUG", "INFO"},
      {"MRB_API_TOKEN", "(hidden)"},   {"OMPI_MCA_pass_word", "(hidden)"},
      {"UCX_TLS", "tcp,self"},         {"OMP_NUM_THREADS", ""},
      {"CUDA_VISIBLE_DEVICES", "0=1"}, {"OFI_NCCL_secret", "(hidden)"}};
  CHECK(recorded_environment(variables) == expected);
}

TEST_CASE("every library is there with its versions, or says what it needs", "[cluster]") {
  const auto lines = library_lines();
  REQUIRE(lines.size() == 4);
  const std::vector<std::string> names = {"mpi", "libfabric", "cuda", "nccl"};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    CHECK(lines[i].name == names[i]);
    CHECK(lines[i].needs.empty() == !lines[i].built_with.empty());
    CHECK(lines[i].needs.empty() == !lines[i].loaded.empty());
  }
}
