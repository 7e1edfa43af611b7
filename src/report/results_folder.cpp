#include "report/results_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <random>

#include "base/error.hpp"
#include "report/run_info.hpp"

namespace mrb {

namespace {

std::string utc_text(const char* format) {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, format, &parts);
  return text;
}

[[noreturn]] void refuse_folder(const std::string& what, const std::string& words) {
  throw Error(ErrorKind::environment, fmt::format("{}: {}", what, words),
              "set output.dir to a folder that can be written to, with room left");
}

}  // namespace

std::string utc_now() {
  return utc_text("%Y-%m-%dT%H:%M:%SZ");
}

std::string ResultsFolder::new_id() {
  std::random_device device;
  return fmt::format("{}-{:06x}", utc_text("%Y%m%dT%H%M%SZ"), device() & 0xffffffu);
}

ResultsFolder::ResultsFolder(const std::string& directory, const std::string& id) : path_(directory + "/" + id) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) refuse_folder(fmt::format("the folder '{}' cannot be made", directory), error.message());
  if (!std::filesystem::create_directory(path_, error)) {
    refuse_folder(fmt::format("the folder '{}' cannot be made", path_), error ? error.message() : "it exists already");
  }
}

void ResultsFolder::write(const std::string& name, const std::string& text) const {
  replace_file(path_ + "/" + name, text);
}

void replace_file(const std::string& target, const std::string& text) {
  const std::string temporary = target + ".part";
  const auto check = [&](bool ok) {
    if (!ok) refuse_folder(fmt::format("'{}' cannot be written", target), std::strerror(errno));
  };
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  check(file >= 0);
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(file, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int code = errno;
      ::close(file);
      errno = code;
      check(false);
    }
    done += static_cast<std::size_t>(written);
  }
  const bool synced = ::fsync(file) == 0 || errno == EINVAL;  // some file systems have nothing to sync
  const bool closed = ::close(file) == 0;
  check(synced && closed);
  check(std::rename(temporary.c_str(), target.c_str()) == 0);
}

}  // namespace mrb
