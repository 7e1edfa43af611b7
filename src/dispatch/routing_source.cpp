#include "dispatch/routing_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "base/random.hpp"

namespace mrb {

namespace {

using Experts = std::vector<std::int32_t>;

Experts all_experts(int count) {
  Experts experts(static_cast<std::size_t>(count));
  std::iota(experts.begin(), experts.end(), 0);
  return experts;
}

// The first `count` of `from` become a uniform draw without putting back.
void draw_first(Random& random, Experts& from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) std::swap(from[i], from[i + random.below(from.size() - i)]);
}

// Tokens are drawn one after the other from a stream of their own iteration and rank.
class TokenByToken : public RoutingSource {
 public:
  explicit TokenByToken(const RoutingShape& shape) : shape_(shape) {}

  RankRouting draw(std::uint64_t iteration, int rank, std::int64_t tokens) const override {
    RankRouting routing{.expert_ids = {}, .top_k = shape_.top_k};
    routing.expert_ids.reserve(static_cast<std::size_t>(tokens) * top_k());
    Random random({shape_.seed, Random::routing, iteration, static_cast<std::uint64_t>(rank)});
    Experts scratch = all_experts(shape_.expert_count);
    for (std::int64_t token = 0; token < tokens; ++token) add_token(random, scratch, routing.expert_ids);
    return routing;
  }

 protected:
  // Appends top_k experts. `scratch` holds all experts, in any order.
  virtual void add_token(Random&, Experts& scratch, Experts& to) const = 0;

  std::size_t top_k() const { return static_cast<std::size_t>(shape_.top_k); }

  RoutingShape shape_;
};

class Uniform final : public TokenByToken {
 public:
  using TokenByToken::TokenByToken;

 private:
  void add_token(Random& random, Experts& scratch, Experts& to) const override {
    draw_first(random, scratch, top_k());
    to.insert(to.end(), scratch.begin(), scratch.begin() + shape_.top_k);
  }
};

class Hot final : public TokenByToken {
 public:
  explicit Hot(const RoutingShape& shape) : TokenByToken(shape) {
    Random random({shape.seed, Random::routing});
    hot_ = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(shape.expert_count)));
  }

 private:
  void add_token(Random& random, Experts& scratch, Experts& to) const override {
    std::iter_swap(std::find(scratch.begin(), scratch.end(), hot_), scratch.end() - 1);
    Experts others(scratch.begin(), scratch.end() - 1);
    draw_first(random, others, top_k() - 1);
    others.resize(top_k() - 1);
    others.insert(others.begin() + static_cast<std::ptrdiff_t>(random.below(top_k())), hot_);
    to.insert(to.end(), others.begin(), others.end());
  }

  std::int32_t hot_ = 0;
};

class GroupLimited final : public TokenByToken {
 public:
  GroupLimited(const RoutingShape& shape, int groups, int groups_of_token)
      : TokenByToken(shape), groups_(groups), groups_of_token_(groups_of_token) {}

 private:
  void add_token(Random& random, Experts&, Experts& to) const override {
    Experts groups = all_experts(groups_);
    draw_first(random, groups, static_cast<std::size_t>(groups_of_token_));
    const int size = shape_.expert_count / groups_;
    Experts experts;
    for (int i = 0; i < groups_of_token_; ++i) {
      for (int e = 0; e < size; ++e) experts.push_back(groups[static_cast<std::size_t>(i)] * size + e);
    }
    draw_first(random, experts, top_k());
    to.insert(to.end(), experts.begin(), experts.begin() + shape_.top_k);
  }

  int groups_, groups_of_token_;
};

class Zipf final : public TokenByToken {
 public:
  Zipf(const RoutingShape& shape, double exponent) : TokenByToken(shape), experts_(all_experts(shape.expert_count)) {
    Random random({shape.seed, Random::routing});
    draw_first(random, experts_, experts_.size());
    double sum = 0;
    for (std::size_t i = 0; i < experts_.size(); ++i) {
      weights_.push_back(std::pow(static_cast<double>(i + 1), -exponent));
      sums_.push_back(sum += weights_.back());
    }
  }

 private:
  // Throwing away what was drawn before is drawing without putting back. Where nearly all weight is gone that takes
  // long, so after some tries the rest is added up.
  void add_token(Random& random, Experts&, Experts& to) const override {
    constexpr int kTries = 32;
    std::vector<bool> taken(experts_.size());
    for (int k = 0; k < shape_.top_k; ++k) {
      std::size_t place = draw(random);
      for (int tries = 0; taken[place] && tries < kTries; ++tries) place = draw(random);
      if (taken[place]) place = draw_among_rest(random, taken);
      taken[place] = true;
      to.push_back(experts_[place]);
    }
  }

  std::size_t draw(Random& random) const {
    const auto found = std::upper_bound(sums_.begin(), sums_.end(), random.uniform() * sums_.back());
    return std::min(static_cast<std::size_t>(found - sums_.begin()), sums_.size() - 1);
  }

  std::size_t draw_among_rest(Random& random, const std::vector<bool>& taken) const {
    double left = 0;
    for (std::size_t i = 0; i < taken.size(); ++i) left += taken[i] ? 0 : weights_[i];
    double at = random.uniform() * left;
    std::size_t last = 0;
    for (std::size_t i = 0; i < taken.size(); ++i) {
      if (taken[i]) continue;
      last = i;
      if ((at -= weights_[i]) < 0) break;
    }
    return last;
  }

  Experts experts_;  // most popular first
  std::vector<double> weights_, sums_;
};

class Trace final : public RoutingSource {
 public:
  Trace(const std::string& path, const RoutingShape& shape) : shape_(shape) {
    std::ifstream file(path);
    if (!file) {
      throw Error(ErrorKind::environment, fmt::format("the routing trace '{}' cannot be read", path),
                  "give a file that every rank can read");
    }
    std::int64_t number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      if (line.empty() || line.front() == '#') continue;
      const Experts experts = read_line(line, path, number);
      expert_ids_.insert(expert_ids_.end(), experts.begin(), experts.end());
    }
    if (expert_ids_.empty()) {
      throw Error(ErrorKind::config, fmt::format("the routing trace '{}' holds no token", path),
                  "give a file with one line per token");
    }
  }

  RankRouting draw(std::uint64_t iteration, int rank, std::int64_t tokens) const override {
    RankRouting routing{.expert_ids = {}, .top_k = shape_.top_k};
    const auto k = static_cast<std::uint64_t>(shape_.top_k);
    const std::uint64_t lines = expert_ids_.size() / k;
    const auto place = iteration * static_cast<std::uint64_t>(shape_.rank_count) + static_cast<std::uint64_t>(rank);
    for (std::uint64_t token = 0; token < static_cast<std::uint64_t>(tokens); ++token) {
      const auto first = (place * static_cast<std::uint64_t>(tokens) + token) % lines * k;
      for (std::uint64_t i = 0; i < k; ++i) routing.expert_ids.push_back(expert_ids_[first + i]);
    }
    return routing;
  }

 private:
  Experts read_line(const std::string& line, const std::string& path, std::int64_t number) const {
    const auto refuse = [&](const std::string& problem) {
      throw Error(ErrorKind::config, fmt::format("{}:{}: {}", path, number, problem),
                  fmt::format("write {} different expert ids of 0 to {} on each line, or -1 for a dropped copy",
                              shape_.top_k, shape_.expert_count - 1));
    };
    Experts experts;
    std::set<std::int32_t> seen;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      std::int32_t expert = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), expert);
      if (error != std::errc() || end != word.data() + word.size()) refuse(fmt::format("'{}' is no expert id", word));
      if (expert < -1 || expert >= shape_.expert_count) {
        refuse(fmt::format("there is no expert {} among {}", expert, shape_.expert_count));
      }
      if (expert >= 0 && !seen.insert(expert).second) refuse(fmt::format("expert {} is there twice", expert));
      experts.push_back(expert);
    }
    if (static_cast<int>(experts.size()) != shape_.top_k) {
      refuse(fmt::format("there are {} expert ids, and top_k is {}", experts.size(), shape_.top_k));
    }
    return experts;
  }

  RoutingShape shape_;
  Experts expert_ids_;
};

[[noreturn]] void refuse(const std::string& problem, const std::string& fix) {
  throw Error(ErrorKind::config, problem, fix);
}

std::vector<double> numbers_in(const std::string& text, std::size_t begin, std::size_t count) {
  std::vector<double> numbers;
  std::istringstream words(text.substr(begin));
  for (std::string word; std::getline(words, word, ':');) {
    double number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(number)) break;
    numbers.push_back(number);
  }
  const auto colons = static_cast<std::size_t>(std::count(text.begin(), text.end(), ':'));
  if (numbers.size() != count || colons != count) {
    refuse(fmt::format("routing '{}' is not understood", text), "write it as one of: " + routing_source_forms());
  }
  return numbers;
}

std::unique_ptr<RoutingSource> make_zipf(const std::string& text, const RoutingShape& shape) {
  const double exponent = numbers_in(text, 5, 1)[0];
  if (exponent < 0 || exponent > 10) refuse(fmt::format("the exponent of '{}' is not in 0 to 10", text), "use zipf:1");
  return std::make_unique<Zipf>(shape, exponent);
}

std::unique_ptr<RoutingSource> make_group_limited(const std::string& text, const RoutingShape& shape) {
  const auto numbers = numbers_in(text, 14, 2);
  const double groups = numbers[0], of_token = numbers[1];
  const bool are_whole = groups == std::floor(groups) && of_token == std::floor(of_token);
  if (!are_whole || groups < 1 || groups > shape.expert_count || shape.expert_count % static_cast<int>(groups) != 0) {
    refuse(fmt::format("the {} experts do not divide into the groups of '{}'", shape.expert_count, text),
           "use a number of groups that divides them");
  }
  const int room = static_cast<int>(std::min(of_token, groups)) * (shape.expert_count / static_cast<int>(groups));
  if (of_token < 1 || of_token > groups || room < shape.top_k) {
    refuse(fmt::format("'{}' gives a token {} experts to choose from, and top_k is {}", text, of_token < 1 ? 0 : room,
                       shape.top_k),
           fmt::format("use 1 to {} groups of a token, with at least top_k experts in them", groups));
  }
  return std::make_unique<GroupLimited>(shape, static_cast<int>(groups), static_cast<int>(of_token));
}

}  // namespace

std::string routing_source_forms() {
  return "uniform, zipf:1.2, group_limited:8:4 (8 groups, 4 for each token), hot, trace:FILE";
}

std::unique_ptr<RoutingSource> make_routing_source(const std::string& text, const RoutingShape& shape) {
  if (text == "uniform") return std::make_unique<Uniform>(shape);
  if (text == "hot") return std::make_unique<Hot>(shape);
  if (text.starts_with("zipf:")) return make_zipf(text, shape);
  if (text.starts_with("group_limited:")) return make_group_limited(text, shape);
  if (text.starts_with("trace:")) return std::make_unique<Trace>(text.substr(6), shape);
  refuse(fmt::format("routing '{}' is not understood", text), "write it as one of: " + routing_source_forms());
}

}  // namespace mrb
