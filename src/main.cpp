#include "cli/cli.hpp"

int main(int argc, char** argv) {
  return mrb::run_cli(argc, argv);
}
