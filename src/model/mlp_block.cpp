#include "model/mlp_block.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace mrb {

MlpBlock::MlpBlock(const ModelContext& context, int layer)
    : context_(context), norm_(context, fmt::format("layers.{}.mlp_norm", layer)) {
  const auto name = [&](const char* part) { return fmt::format("layers.{}.{}", layer, part); };
  if (layer < context.shape.dense_layers) {
    local_.emplace(context, name("dense"));
    return;
  }
  router_.emplace(context.ops.f32_products, context.parameters, context.parameters.find(name("router")));
  experts_.emplace(context, name("experts"), context.local_experts);
  if (context.shape.shared_ff > 0) local_.emplace(context, name("shared"));
}

std::size_t MlpBlock::publish() {
  std::size_t bytes = 0;
  if (router_) bytes += router_->publish();
  if (experts_) bytes += experts_->publish();
  if (local_) bytes += local_->publish();
  return bytes;
}

void MlpBlock::forward(Tensor& x, MlpTape& tape, std::vector<std::int64_t>& load) const {
  const std::int64_t tokens = x.rows();
  tape.x = context_.tensor(tokens, context_.shape.hidden);
  std::copy_n(x.data(), x.view().size(), tape.x.data());
  const Tensor normed = context_.tensor(tokens, context_.shape.hidden);
  norm_.forward(x.view(), normed.view(), tape.inverse_rms);
  const Tensor y = context_.tensor(tokens, context_.shape.hidden);
  if (experts_) {
    run_experts(normed, tape, load, y.view());
    context_.ops.layers.add(y.view(), x.view());
  }
  if (local_) {
    const std::int64_t rows[] = {tokens};
    local_->forward(rows, normed.view(), nullptr, tape.local_gate_up, y.view());
    context_.ops.layers.add(y.view(), x.view());
  }
}

void MlpBlock::run_experts(const Tensor& normed, MlpTape& tape, std::vector<std::int64_t>& load, Matrix y) const {
  const ModelShape& shape = context_.shape;
  const std::int64_t tokens = normed.rows();
  const std::int64_t token_rows[] = {tokens};
  tape.probabilities = context_.tensor(tokens, shape.experts);
  tape.gates = context_.tensor(tokens, shape.top_k);
  tape.expert_ids.resize(static_cast<std::size_t>(tokens * shape.top_k));
  {
    const Tensor logits = context_.tensor(tokens, shape.experts);
    router_->forward(token_rows, normed.view(), logits.view());
    context_.ops.router.route(logits.view(), shape.top_k, tape.probabilities.view(), tape.expert_ids,
                              tape.gates.view());
  }
  context_.compute.synchronize();
  {
    const PhaseClock::Scope phase(context_.phases, "dispatch");
    tape.route = context_.dispatcher.route({tape.expert_ids, shape.top_k});
    context_.dispatcher.dispatch_send(*tape.route, {normed.data(), tape.gates.data()}, Values::sent);
    context_.dispatcher.settle(*tape.route);
    tape.rows = context_.tensor(tape.route->row_count, shape.hidden);
    tape.row_gates = context_.tensor(1, tape.route->row_count);
    context_.dispatcher.dispatch_wait(*tape.route, {tape.rows.data(), tape.row_gates.data()});
  }
  for (const std::int32_t expert : tape.expert_ids) ++load[static_cast<std::size_t>(expert)];
  const Tensor results = context_.tensor(tape.route->row_count, shape.hidden);
  experts_->forward(tape.route->rows_of, tape.rows.view(), tape.row_gates.data(), tape.expert_gate_up, results.view());
  context_.compute.synchronize();
  const PhaseClock::Scope phase(context_.phases, "combine");
  context_.dispatcher.combine(*tape.route, {results.data(), nullptr}, {y.data, nullptr}, Values::none);
}

void MlpBlock::backward(Matrix dx, MlpTape& tape, std::span<const float> balance) const {
  const std::int64_t tokens = dx.rows;
  const Tensor normed = context_.tensor(tokens, context_.shape.hidden);
  norm_.forward(tape.x.view(), normed.view(), tape.inverse_rms);
  const Tensor dnormed = context_.tensor(tokens, context_.shape.hidden);
  if (experts_) experts_backward(dx, normed, tape, balance, dnormed.view());
  if (local_) {
    const std::int64_t rows[] = {tokens};
    local_->backward(rows, dx, normed.view(), nullptr, std::move(tape.local_gate_up), dnormed.view(),
                     experts_ ? Store::add : Store::replace, nullptr);
  }
  norm_.backward(dnormed.view(), tape.x.view(), tape.inverse_rms, dx, Store::add);
  tape = {};
}

// The mirrored pair, with the cached route: the gradient of combine() is a dispatch(), that of dispatch() a combine(),
// and the gradients of the gates come home with it.
void MlpBlock::experts_backward(ConstMatrix dy, const Tensor& normed, MlpTape& tape, std::span<const float> balance,
                                Matrix dnormed) const {
  const ModelShape& shape = context_.shape;
  const std::int64_t rows = tape.route->row_count;
  const Tensor drows = context_.tensor(rows, shape.hidden);
  const Tensor drow_gates = context_.tensor(1, rows);
  {
    const Tensor dresults = context_.tensor(rows, shape.hidden);
    {
      const PhaseClock::Scope phase(context_.phases, "dispatch");
      context_.dispatcher.dispatch(*tape.route, {const_cast<float*>(dy.data), nullptr}, {dresults.data(), nullptr},
                                   Values::none);
    }
    experts_->backward(tape.route->rows_of, dresults.view(), tape.rows.view(), tape.row_gates.data(),
                       std::move(tape.expert_gate_up), drows.view(), Store::replace, drow_gates.data());
  }
  const Tensor dgates = context_.tensor(dy.rows, shape.top_k);
  context_.compute.synchronize();
  {
    const PhaseClock::Scope phase(context_.phases, "combine");
    context_.dispatcher.combine(*tape.route, {drows.data(), drow_gates.data()}, {dnormed.data, dgates.data()},
                                Values::sent);
  }
  const Tensor dlogits = context_.tensor(dy.rows, shape.experts);
  context_.ops.router.route_backward(dgates.view(), tape.probabilities.view(), tape.expert_ids, tape.gates.view(),
                                     balance, dlogits.view());
  const std::int64_t token_rows[] = {dy.rows};
  router_->backward(token_rows, dlogits.view(), normed.view(), dnormed, Store::add);
}

}  // namespace mrb
