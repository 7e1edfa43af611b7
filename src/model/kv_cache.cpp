#include "model/kv_cache.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace mrb {

KvCache::KvCache(ComputeBackend& compute, const ModelShape& shape, int slots, int tokens_max)
    : layers_(shape.layers),
      slots_(slots),
      tokens_max_(tokens_max),
      kv_width_(shape.kv_heads * shape.head_dim),
      memory_(compute, std::int64_t{2} * layers_ * slots * tokens_max, kv_width_),
      lengths_(static_cast<std::size_t>(slots)) {}

CacheSlot KvCache::at(int layer, int slot) const {
  const std::int64_t piece = std::int64_t{tokens_max_} * kv_width_;
  float* keys = memory_.data() + (std::int64_t{layer} * slots_ + slot) * 2 * piece;
  return {.keys = keys, .values = keys + piece, .tokens = length(slot)};
}

void KvCache::set_length(int slot, int tokens) {
  if (tokens < 0 || tokens > tokens_max_) {
    throw Error(ErrorKind::internal,
                fmt::format("slot {} of the cache holds {} tokens at most, not {}", slot, tokens_max_, tokens),
                "report this with the command that shows it");
  }
  lengths_[static_cast<std::size_t>(slot)] = tokens;
}

void KvCache::copy_slot(int from, int to, int tokens) {
  for (int layer = 0; layer < layers_; ++layer) {
    const CacheSlot source = at(layer, from), target = at(layer, to);
    std::copy_n(source.keys, std::int64_t{tokens} * kv_width_, target.keys);
    std::copy_n(source.values, std::int64_t{tokens} * kv_width_, target.values);
  }
  set_length(to, tokens);
}

std::size_t KvCache::bytes() const {
  return static_cast<std::size_t>(memory_.view().size()) * sizeof(float);
}

}  // namespace mrb
