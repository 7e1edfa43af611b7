// The ranks that mpirun started. Only small and rare messages go this way.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "base/units.hpp"
#include "cluster/bootstrap.hpp"
#include "cluster/mpi_call.hpp"

namespace mrb {

namespace {

volatile std::sig_atomic_t code_after_abort = 0;

class Mpi final : public Bootstrap {
 public:
  explicit Mpi(const BootstrapOptions& options) : timeout_s_(options.timeout_s) {
    int started = 0;
    mpi_call(MPI_Initialized(&started), "MPI_Initialized");
    if (started) {
      throw Error(ErrorKind::internal, "MPI was already started in this process, and it starts only once",
                  "make one mpi bootstrap and pass it on");
    }
    int threads = 0;
    // One thread at a time, and not always the same: a dispatcher may have one of its own that moves the bytes.
    mpi_call(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads), "MPI_Init_thread");
    if (threads < MPI_THREAD_SERIALIZED) {
      throw Error(ErrorKind::environment, "this MPI does not let threads take turns (MPI_THREAD_SERIALIZED)",
                  "use an MPI that was built with threads");
    }
    mpi_call(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    MPI_Request request = MPI_REQUEST_NULL;
    mpi_call(MPI_Comm_idup(MPI_COMM_WORLD, &ranks_, &request), "MPI_Comm_idup");
    mpi_wait(request, timeout_s_, "MPI_Comm_idup");  // nobody can be heard on it before
    look_at_ranks();
  }

  // A part of `all`, which must outlive it.
  Mpi(MPI_Comm ranks, Mpi& all) : timeout_s_(all.timeout_s_), ranks_(ranks), all_(&all) { look_at_ranks(); }

  // MPI_Finalize waits for all ranks. When this rank is failing, or the others do not come, it is left out:
  // the process then ends with its own error and code, and mpirun ends the others because it did not
  // finalize.
  ~Mpi() override {
    if (broken_ || std::uncaught_exceptions() > 0) return;
    if (all_ != this) {
      MPI_Comm_free(&ranks_);
      return;
    }
    try {
      barrier();
      MPI_Comm_free(&ranks_);
      MPI_Finalize();
    } catch (const Error& error) {
      fmt::print(stderr, "error: the ranks did not end together: {}\n", error.what());
      abort(error.exit_code());
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override {
    buffers_.lengths.resize(static_cast<std::size_t>(size_));
    buffers_.length = static_cast<int>(mine.size());
    MPI_Request request = MPI_REQUEST_NULL;
    mpi_call(MPI_Iallgather(&buffers_.length, 1, MPI_INT, buffers_.lengths.data(), 1, MPI_INT, ranks_, &request),
             "MPI_Iallgather");
    wait(request, "all_gather of lengths");

    buffers_.offsets.assign(buffers_.lengths.size(), 0);
    std::partial_sum(buffers_.lengths.begin(), buffers_.lengths.end() - 1, buffers_.offsets.begin() + 1);
    buffers_.mine.assign(mine.begin(), mine.end());
    buffers_.all.resize(static_cast<std::size_t>(buffers_.offsets.back() + buffers_.lengths.back()));
    mpi_call(MPI_Iallgatherv(buffers_.mine.data(), buffers_.length, MPI_BYTE, buffers_.all.data(),
                             buffers_.lengths.data(), buffers_.offsets.data(), MPI_BYTE, ranks_, &request),
             "MPI_Iallgatherv");
    wait(request, "all_gather");

    std::vector<std::vector<std::byte>> by_rank;
    for (std::size_t r = 0; r < buffers_.lengths.size(); ++r) {
      const auto first = buffers_.all.begin() + buffers_.offsets[r];
      by_rank.emplace_back(first, first + buffers_.lengths[r]);
    }
    return by_rank;
  }

  std::int64_t max(std::int64_t mine) override {
    buffers_.value = mine;
    MPI_Request request = MPI_REQUEST_NULL;
    mpi_call(MPI_Iallreduce(&buffers_.value, &buffers_.largest, 1, MPI_INT64_T, MPI_MAX, ranks_, &request),
             "MPI_Iallreduce");
    wait(request, "max over ranks");
    return buffers_.largest;
  }

  void barrier() override { barrier_polling({}); }

  void barrier_polling(const std::function<void()>& poll) override {
    MPI_Request request = MPI_REQUEST_NULL;
    mpi_call(MPI_Ibarrier(ranks_, &request), "MPI_Ibarrier");
    wait(request, "barrier", poll);
  }

  std::unique_ptr<Bootstrap> split(int color) override {
    barrier();  // MPI_Comm_split has no deadline: whoever does not come is missed here
    MPI_Comm part = MPI_COMM_NULL;
    mpi_call(MPI_Comm_split(ranks_, color, rank_, &part), "MPI_Comm_split");
    return std::make_unique<Mpi>(part, *all_);
  }

  // Whoever has stopped, the first of the speakers that has not will find the words of all others with it.
  std::vector<std::string> last_words(const std::string& mine) override {
    if (all_ != this) return all_->last_words(mine);
    constexpr int kSpeakers = 3;                  // the others wait as long as the one after these
    constexpr double kListen_s = 3, kTurn_s = 4;  // after a turn of the one before, it must have stopped too
    std::vector<std::string> words(static_cast<std::size_t>(size_));
    words[static_cast<std::size_t>(rank_)] = mine;
    for (int other = 0; other < size_; ++other) {  // all of them: whoever waits in a collective call is to hear it
      if (other == rank_) continue;
      MPI_Request request = MPI_REQUEST_NULL;  // ends with the process
      MPI_Isend(mine.data(), static_cast<int>(mine.size()), MPI_CHAR, other, kLastWordsTag, ranks_, &request);
    }
    const int turn = std::min(rank_, kSpeakers);
    const std::int64_t began_ns = steady_now_ns();
    const std::int64_t until_ns = began_ns + s_to_ns(kListen_s + kTurn_s * turn);
    while (steady_now_ns() < until_ns) {
      const bool all_are_here = std::ranges::none_of(words, [](const std::string& text) { return text.empty(); });
      if (rank_ == 0 && all_are_here) break;
      if (!take_words(words)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return words;
  }

  // MPI_Abort itself may wait for a host that is gone.
  [[noreturn]] void abort(int exit_code) override {
    constexpr unsigned kAbort_s = 5;
    std::fflush(nullptr);
    code_after_abort = exit_code;
    std::signal(SIGALRM, [](int) { ::_exit(code_after_abort); });
    ::alarm(kAbort_s);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
  }

 private:
  // What the collective in progress reads and writes. They are members because a collective that was given up
  // may still write to them.
  struct Buffers {
    int length = 0;
    std::vector<int> lengths;
    std::vector<int> offsets;
    std::vector<std::byte> mine;
    std::vector<std::byte> all;
    std::int64_t value = 0;
    std::int64_t largest = 0;
  };

  static constexpr int kLastWordsTag = 1;

  void look_at_ranks() {
    mpi_call(MPI_Comm_set_errhandler(ranks_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    mpi_call(MPI_Comm_rank(ranks_, &rank_), "MPI_Comm_rank");
    mpi_call(MPI_Comm_size(ranks_, &size_), "MPI_Comm_size");
  }

  // What has come of last_words() of one other rank; false when there is nothing.
  bool take_words(std::vector<std::string>& words) {
    int is_there = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, kLastWordsTag, ranks_, &is_there, &status) != MPI_SUCCESS || !is_there) return false;
    int length = 0;
    MPI_Get_count(&status, MPI_CHAR, &length);
    std::string text(static_cast<std::size_t>(length), ' ');
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(text.data(), length, MPI_CHAR, status.MPI_SOURCE, kLastWordsTag, ranks_, &request);
    constexpr double kTimeout_s = 1;  // it was there
    mpi_wait(request, kTimeout_s, "last words");
    words[static_cast<std::size_t>(status.MPI_SOURCE)] = text;
    return true;
  }

  // A rank that waits here, with a longer limit than for messages, does not go on waiting when another has given up.
  void listen(std::string_view operation) {
    int is_there = 0;
    MPI_Status status;
    mpi_call(MPI_Iprobe(MPI_ANY_SOURCE, kLastWordsTag, all_->ranks_, &is_there, &status), "MPI_Iprobe");
    if (!is_there) return;
    throw Error(ErrorKind::timeout,
                fmt::format("{}: waits for all ranks, and rank {} has given up", operation, status.MPI_SOURCE),
                fmt::format("look at what rank {} waits for", status.MPI_SOURCE));
  }

  void wait(MPI_Request& request, std::string_view operation, const std::function<void()>& poll = {}) {
    constexpr std::int64_t kListenEvery_ns = 10'000'000;
    if (broken_) {
      throw Error(ErrorKind::internal, fmt::format("{}: an earlier collective of the ranks has failed", operation),
                  "report this with the command that shows it");
    }
    broken_ = true;
    std::int64_t next_listen_ns = steady_now_ns() + kListenEvery_ns;
    mpi_wait(request, timeout_s_, operation, [&] {
      if (poll) poll();
      if (steady_now_ns() < next_listen_ns) return;
      listen(operation);
      next_listen_ns = steady_now_ns() + kListenEvery_ns;
    });
    broken_ = false;
  }

  double timeout_s_;
  MPI_Comm ranks_ = MPI_COMM_NULL;
  Mpi* all_ = this;  // last words are for all ranks, and come from all
  int rank_ = 0;
  int size_ = 1;
  bool broken_ = false;  // a collective did not end; the next would not either
  Buffers buffers_;
};

}  // namespace

std::unique_ptr<Bootstrap> make_mpi_bootstrap(const BootstrapOptions& options) {
  return std::make_unique<Mpi>(options);
}

}  // namespace mrb
