// The backend itself: memory, names, threads.
#include "compute/backend.hpp"

#include <cstdint>
#include <cstring>

#include "base/error.hpp"
#include "compute/layers.hpp"
#include "compute/matrices.hpp"
#include "support/catch.hpp"

namespace mrb::test {

TEST_CASE("memory that was given back is given out again", "[compute]") {
  const auto compute = make_compute("cpu", {});
  void* first = compute->allocate(100'000);
  compute->release(first, 100'000);
  void* again = compute->allocate(100'000);
  CHECK(again == first);
  void* other = compute->allocate(100'000);  // while the first is in use
  CHECK(other != first);
  compute->release(again, 100'000);
  compute->release(other, 100'000);
}

TEST_CASE("memory that was given back serves a slightly different size too", "[compute]") {
  const auto compute = make_compute("cpu", {});
  void* first = compute->allocate(1'000'000);
  compute->release(first, 1'000'000);
  void* again = compute->allocate(995'000);
  CHECK(again == first);
  compute->release(again, 995'000);
}

TEST_CASE("memory is aligned to 64 and as large as asked for", "[compute]") {
  const auto compute = make_compute("cpu", {});
  for (const std::size_t bytes : {0u, 1u, 63u, 4096u, 4097u, 9215u, 9217u, 1'000'003u}) {
    INFO(bytes << " bytes");
    void* memory = compute->allocate(bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(memory) % 64 == 0);
    std::memset(memory, 1, bytes);  // the sanitizer watches the end
    compute->release(memory, bytes);
  }
}

TEST_CASE("a tensor gives its memory back, and moving it moves the memory", "[compute]") {
  const auto compute = make_compute("cpu", {});
  float* memory;
  {
    Tensor tensor(*compute, 300, 7);
    memory = tensor.data();
    tensor.zero();
    CHECK(tensor.view().size() == 2100);
    CHECK(tensor.view().row(299)[6] == 0);
    const Tensor moved = std::move(tensor);
    CHECK(moved.data() == memory);
    CHECK(tensor.data() == nullptr);
  }
  const Tensor next(*compute, 300, 7);
  CHECK(next.data() == memory);
}

TEST_CASE("the cpu backend says what it runs on", "[compute]") {
  const auto compute = make_compute("cpu", {.threads = 1});
  CHECK(compute->capabilities().name == "cpu");
  CHECK(compute->capabilities().dtype == "f32");
  CHECK(compute->capabilities().threads == 1);
  CHECK_THAT(compute->capabilities().loaded_library, contains("oneDNN"));
  CHECK(!compute->capabilities().device.empty());
}

TEST_CASE("a backend or a dtype that does not exist is refused with those that do", "[compute]") {
  CHECK_THROWS_WITH(make_compute("gpu", {}), contains("gpu") && contains("cpu"));
  CHECK_THROWS_WITH(make_compute("cpu", {.dtype = "f64"}), contains("f64") && contains("f32 or bf16"));
}

TEST_CASE("results do not depend on the number of threads", "[compute]") {
  const Numbers x = draw(1, 200, 130), gain = draw(2, 1, 130), dy = draw(3, 200, 130);
  const auto run = [&](int threads) {
    const auto compute = make_compute("cpu", {.threads = threads});
    Numbers y(200, 130), inverse_rms(1, 200), dgain(1, 130);
    LayerOps& layers = compute->operations().layers;
    layers.rms_norm(x.view(), gain.view().data, 1e-6, y.view(), inverse_rms.data());
    layers.rms_norm_backward(dy.view(), x.view(), gain.view().data, inverse_rms.data(), y.view(), Store::add,
                             dgain.data());
    y.values.insert(y.values.end(), dgain.values.begin(), dgain.values.end());
    return y.values;
  };
  const auto three = run(3), one = run(1);  // one last: tests that follow are alone in their thread again
  CHECK(three == one);
}

}  // namespace mrb::test
