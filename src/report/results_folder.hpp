// One folder per run, never used twice, complete at every moment.
#pragma once

#include <string>

namespace mrb {

class ResultsFolder {
 public:
  // Makes <directory>/<id>. Throws Error(environment) with the system's words when it cannot.
  ResultsFolder(const std::string& directory, const std::string& id);

  const std::string& path() const { return path_; }

  // Replaces <folder>/<name> as a whole: a reader, and a crash, find the old text or the new one.
  void write(const std::string& name, const std::string& text) const;

  // An id that sorts by time: "20261201T101500Z-1f3a9c".
  static std::string new_id();

 private:
  std::string path_;
};

}  // namespace mrb
