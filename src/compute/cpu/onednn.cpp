#include "compute/cpu/onednn.hpp"

#include <fmt/format.h>

#include <bit>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>

#include "base/error.hpp"

namespace mrb {

namespace {

using dnnl::memory;

// Version 2 describes an operation first, version 3 makes the primitive's description at once.
template <class Primitive>
auto describe(const dnnl::engine& engine, const memory::desc& a, const memory::desc& b, const memory::desc& c,
              const dnnl::primitive_attr& attributes) {
  if constexpr (requires { typename Primitive::desc; }) {
    return typename Primitive::primitive_desc(typename Primitive::desc(a, b, c), attributes, engine);
  } else {
    return typename Primitive::primitive_desc(engine, a, b, c, attributes);
  }
}

std::string_view isa_text(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41:
      return "SSE4.1";
    case dnnl::cpu_isa::avx:
      return "AVX";
    case dnnl::cpu_isa::avx2:
      return "AVX2";
    case dnnl::cpu_isa::avx512_core:
      return "AVX-512";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "AVX-512 VNNI";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "AVX-512 BF16";
    default:
      return "newer than AVX-512 BF16";
  }
}

bool multiplies_bf16(dnnl::cpu_isa isa) {
  const auto text = isa_text(isa);
  return text == "AVX-512 BF16" || text.starts_with("newer");
}

Error refused(const std::string& what, const std::string& words) {
  return Error(ErrorKind::internal, fmt::format("oneDNN refused {}: {}", what, words),
               "report this with the output of moe-rl-bench version");
}

}  // namespace

void multiply(const Product& p) {
  const auto letter = [](Transposed t) { return t == Transposed::yes ? 'T' : 'N'; };
  const dnnl_status_t status =
      dnnl_sgemm(letter(p.a.transposed), letter(p.b.transposed), p.m, p.n, p.k, p.factor, p.a.data, p.a.stride,
                 p.b.data, p.b.stride, p.store == Store::add ? 1.0f : 0.0f, p.c, p.c_stride);
  if (status != dnnl_success) {
    throw refused(fmt::format("dnnl_sgemm of {} x {} x {}", p.m, p.n, p.k), fmt::format("status {}", int(status)));
  }
}

std::string onednn_text() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}, {}", version->major, version->minor, version->patch,
                     isa_text(dnnl::get_effective_cpu_isa()));
}

struct Bf16Products::State {
  using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t, Transposed, Store>;

  struct Kernel {
    dnnl::matmul primitive;
    memory a, b, c;  // without memory of their own: set before each call
  };

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<Shape, Kernel> kernels;

  Kernel& find(const Shape& shape) {
    const auto found = kernels.find(shape);
    if (found != kernels.end()) return found->second;
    const auto [m, n, k, transposed, store] = shape;
    using Strides = memory::dims;
    const memory::desc a({m, k}, memory::data_type::bf16, Strides{k, 1});
    const memory::desc b({k, n}, memory::data_type::bf16,
                         transposed == Transposed::yes ? Strides{1, k} : Strides{n, 1});
    const memory::desc c({m, n}, memory::data_type::f32, Strides{n, 1});
    dnnl::primitive_attr attributes;
    if (store == Store::add) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    Kernel kernel{dnnl::matmul(describe<dnnl::matmul>(engine, a, b, c, attributes)), memory(a, engine, nullptr),
                  memory(b, engine, nullptr), memory(c, engine, nullptr)};
    return kernels.emplace(shape, std::move(kernel)).first->second;
  }
};

Bf16Products::Bf16Products() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  if (!multiplies_bf16(isa)) {
    throw Error(ErrorKind::environment,
                fmt::format("this processor has no instructions to multiply bf16 (oneDNN uses {})", isa_text(isa)),
                "use compute.dtype: f32 here");
  }
  state_ = std::make_unique<State>();
}

Bf16Products::~Bf16Products() = default;

void Bf16Products::multiply(std::int64_t m, std::int64_t n, std::int64_t k, const Number* a, const Number* b,
                            Transposed b_transposed, float* c, Store store) {
  try {
    auto& kernel = state_->find({m, n, k, b_transposed, store});
    kernel.a.set_data_handle(const_cast<Number*>(a));
    kernel.b.set_data_handle(const_cast<Number*>(b));
    kernel.c.set_data_handle(c);
    kernel.primitive.execute(state_->stream,
                             {{DNNL_ARG_SRC, kernel.a}, {DNNL_ARG_WEIGHTS, kernel.b}, {DNNL_ARG_DST, kernel.c}});
    state_->stream.wait();
  } catch (const dnnl::error& error) {
    throw refused(fmt::format("a bf16 product of {} x {} x {}", m, n, k), error.message);
  }
}

void to_bf16(const float* from, Bf16Products::Number* to, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(from[i]);
    const std::uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;  // rounding could turn it into infinity
    to[i] = static_cast<Bf16Products::Number>((is_nan ? bits | 0x400000u : rounded) >> 16);
  }
}

}  // namespace mrb
