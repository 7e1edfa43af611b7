// One folder per run, never used twice, complete at every moment.
#pragma once

#include <string>

namespace mrb {

// Replaces a file as a whole: a reader, and a crash, find the old text or the new one. Throws Error(environment) with the
// system's words when it cannot.
void replace_file(const std::string& target, const std::string& text);

class ResultsFolder {
 public:
  // Makes <directory>/<id>. Throws Error(environment) with the system's words when it cannot.
  ResultsFolder(const std::string& directory, const std::string& id);

  const std::string& path() const { return path_; }

  // replace_file() of <folder>/<name>.
  void write(const std::string& name, const std::string& text) const;

  // An id that sorts by time: "20261201T101500Z-1f3a9c".
  static std::string new_id();

 private:
  std::string path_;
};

}  // namespace mrb
