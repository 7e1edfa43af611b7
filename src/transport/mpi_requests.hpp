// MPI requests in progress, each with a label of its owner's.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>
#include <vector>

namespace mrb {

class MpiRequests {
 public:
  std::size_t size() const { return requests_.size(); }

  void add(MPI_Request request, std::uint32_t label) {
    requests_.push_back(request);
    labels_.push_back(label);
  }

  // The labels of the requests that are done since the last call, which are then forgotten. Valid until the
  // next call.
  std::span<const std::uint32_t> take_done();

  // Asks MPI to give up those that have not been matched. They are done soon after.
  void cancel();

 private:
  std::vector<MPI_Request> requests_;
  std::vector<std::uint32_t> labels_;
  std::vector<int> done_indices_;
  std::vector<std::uint32_t> done_labels_;
};

}  // namespace mrb
