#include "transport/mpi_requests.hpp"

#include "cluster/mpi_call.hpp"

namespace mrb {

std::span<const std::uint32_t> MpiRequests::take_done() {
  done_labels_.clear();
  if (requests_.empty()) return {};
  done_indices_.resize(requests_.size());
  int done = 0;
  mpi_call(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &done, done_indices_.data(),
                        MPI_STATUSES_IGNORE),
           "MPI_Testsome");
  if (done <= 0) return {};
  for (int i = 0; i < done; ++i) {
    done_labels_.push_back(labels_[static_cast<std::size_t>(done_indices_[static_cast<std::size_t>(i)])]);
  }
  // MPI has set the finished ones to null; close the gaps and keep the order, in which the others will
  // finish.
  std::size_t kept = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    requests_[kept] = requests_[i];
    labels_[kept++] = labels_[i];
  }
  requests_.resize(kept);
  labels_.resize(kept);
  return done_labels_;
}

void MpiRequests::cancel() {
  for (MPI_Request& request : requests_) mpi_call(MPI_Cancel(&request), "MPI_Cancel");
}

}  // namespace mrb
