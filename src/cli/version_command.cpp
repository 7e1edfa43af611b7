#include <fmt/format.h>

#include <cstdio>

#include "base/version.hpp"
#include "cli/cli.hpp"
#include "cluster/machine.hpp"
#include "compute/backend.hpp"
#include "report/json.hpp"

namespace mrb {

void add_version_command(CLI::App& app) {
  app.add_subcommand("version", "Which build is this, and which libraries has it loaded?")->callback([] {
    const BuildInfo build = build_info();
    std::string text = fmt::format(
        "moe-rl-bench {}\ncommit        {}\ncompiler      {}\nbuild type    {}\nprocessor     "
        "-march={}\nresult schema {}\n",
        build.version, build.commit, build.compiler, build.build_type, build.processor, kResultSchemaVersion);
    text += fmt::format("oneDNN        {}\n", make_compute("cpu", {})->capabilities().loaded_library);
    for (const LibraryLine& line : library_lines()) {
      text += line.needs.empty()
                  ? fmt::format("{:<13} built with {}, loaded {}\n", line.name, line.built_with, line.loaded)
                  : fmt::format("{:<13} not in this build (-DMRB_WITH_{}=ON)\n", line.name, line.needs);
    }
    std::fputs(text.c_str(), stdout);
  });
}

}  // namespace mrb
