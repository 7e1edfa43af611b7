// Dispatchers that are broken on purpose, to see that they are found out. Each wraps a real one and spoils
// one thing.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "dispatch/dispatcher.hpp"

namespace mrb::test {

enum class Fault {
  none,
  experts_in_reverse,     // dispatch() groups the rows by the last expert first
  row_lost,               // dispatch() never writes the last row
  row_values_swapped,     // dispatch() exchanges the values of the first two rows
  summed_in_other_order,  // combine() adds the rows of a token from the last k to the first
  token_lost,             // combine() never writes the last token
  copy_values_swapped,    // combine() exchanges the values of the first two copies
  rows_counted_double,    // settle() reports twice the rows of the first expert
  bit_flipped,            // dispatch() changes the last bit of one element
};

// f32 only.
class FaultyDispatcher final : public Dispatcher {
 public:
  FaultyDispatcher(std::unique_ptr<Dispatcher> real, std::int64_t hidden, Fault fault)
      : real_(std::move(real)), hidden_(static_cast<std::size_t>(hidden)), fault_(fault) {}

  const DispatcherCapabilities& capabilities() const override { return real_->capabilities(); }
  DispatchBytes bytes() const override { return real_->bytes(); }

  std::unique_ptr<Route> route(const Routing& routing) override {
    std::vector<std::int32_t> expert_ids(routing.expert_ids.begin(), routing.expert_ids.end());
    reverse_k(expert_ids, routing.top_k);
    return real_->route({.expert_ids = expert_ids, .top_k = routing.top_k});
  }

  void settle(Route& route) override {
    real_->settle(route);
    if (fault_ == Fault::rows_counted_double && !std::exchange(has_counted_, true)) route.rows_of[0] *= 2;
  }

  void dispatch_send(Route& route, TokenSide from, Values values) override {
    sent_values_ = copied(from.copy_values, route);
    reverse_k(sent_values_, route.top_k);
    real_->dispatch_send(route, {from.tokens, sent_values_.data()}, values);
  }

  void dispatch_wait(Route& route, RowSide to) override {
    const auto count = static_cast<std::size_t>(route.row_count);
    std::vector<float> rows(count * hidden_), row_values(count);
    real_->dispatch_wait(route, {rows.data(), row_values.data()});
    if (fault_ == Fault::experts_in_reverse) rows = regrouped(rows, route);
    if (fault_ == Fault::bit_flipped) rows[hidden_] = std::nextafter(rows[hidden_], 1.0f);
    if (fault_ == Fault::row_values_swapped) std::swap(row_values.at(0), row_values.at(1));
    std::copy(rows.begin(), rows.end() - (fault_ == Fault::row_lost ? static_cast<std::ptrdiff_t>(hidden_) : 0),
              static_cast<float*>(to.rows));
    if (to.row_values != nullptr) std::copy(row_values.begin(), row_values.end(), static_cast<float*>(to.row_values));
  }

  void combine_send(Route& route, RowSide from, Values values) override { real_->combine_send(route, from, values); }

  void combine_wait(Route& route, TokenSide to) override {
    std::vector<float> tokens(static_cast<std::size_t>(route.token_count) * hidden_);
    auto* const values = static_cast<float*>(to.copy_values);
    real_->combine_wait(route, {tokens.data(), values});
    std::vector<float> in_order = copied(values, route);
    reverse_k(in_order, route.top_k);
    if (fault_ == Fault::copy_values_swapped) std::swap(in_order.at(0), in_order.at(1));
    std::copy(in_order.begin(), in_order.end(), values);
    std::copy(tokens.begin(), tokens.end() - (fault_ == Fault::token_lost ? static_cast<std::ptrdiff_t>(hidden_) : 0),
              static_cast<float*>(to.tokens));
  }

 private:
  // The real dispatcher is told that the last k comes first, so it adds in that order; all else is turned
  // back.
  template <class V>
  void reverse_k(std::vector<V>& by_copy, int top_k) const {
    if (fault_ != Fault::summed_in_other_order) return;
    for (auto token = by_copy.begin(); token != by_copy.end(); token += top_k) std::reverse(token, token + top_k);
  }

  static std::vector<float> copied(const void* copy_values, const Route& route) {
    if (copy_values == nullptr) return std::vector<float>(static_cast<std::size_t>(route.token_count * route.top_k));
    const auto* values = static_cast<const float*>(copy_values);
    return {values, values + route.token_count * route.top_k};
  }

  std::vector<float> regrouped(const std::vector<float>& rows, const Route& route) const {
    std::vector<float> reversed;
    auto end = rows.end();
    for (auto count = route.rows_of.rbegin(); count != route.rows_of.rend(); ++count) {
      const auto begin = end - *count * static_cast<std::ptrdiff_t>(hidden_);
      reversed.insert(reversed.end(), begin, end);
      end = begin;
    }
    return reversed;
  }

  std::unique_ptr<Dispatcher> real_;
  std::size_t hidden_;
  Fault fault_;
  bool has_counted_ = false;
  std::vector<float> sent_values_;
};

}  // namespace mrb::test
