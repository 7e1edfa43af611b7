// Errors that a user can act on, and the exit code each kind leads to.
#pragma once

#include <stdexcept>
#include <string>

namespace mrb {

// What went wrong decides the exit code, so that scripts can tell a bad configuration (fix the file) from a bad
// machine (fix the node) from a rank that never answered (look there). A failed assertion is a bug and aborts.
enum class ErrorKind {
  config = 2,
  wrong_result = 4,
  environment = 5,
  timeout = 6,
  partial = 7,
  not_comparable = 8,
  internal = 70
};

// What failed, with the values involved, and what to do about it. Rank and host are added by whoever prints it.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& problem, const std::string& fix)
      : std::runtime_error(problem + "\n  fix: " + fix), kind_(kind) {}

  // An error that was already put into words, for example on another rank.
  static Error as_received(ErrorKind kind, const std::string& text) { return Error(kind, text); }

  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }

 private:
  Error(ErrorKind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}

  ErrorKind kind_;
};

}  // namespace mrb
