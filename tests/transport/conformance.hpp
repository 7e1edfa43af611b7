// What every transport must do, as functions that every rank of any bootstrap calls together. They throw when
// something is wrong, because assertions of Catch2 work neither in threads nor across processes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster/bootstrap.hpp"
#include "transport/transport.hpp"

namespace mrb::test {

using MakeTransport = std::function<std::unique_ptr<Transport>(Bootstrap&)>;
using ConformanceCheck = void (*)(Bootstrap&, const MakeTransport&);

// Each with a sentence that says what holds.
const std::vector<std::pair<std::string, ConformanceCheck>>& conformance_checks();

}  // namespace mrb::test
