#!/usr/bin/env bash
# Installs what is missing, builds, and runs configs/quickstart.yaml: whole GRPO steps on four ranks of this machine.
cd "$(dirname "$0")/.." || exit 1
. scripts/setup.sh
[ $# -eq 0 ] || fail "quickstart.sh takes no arguments, it got: $*" "run build/release/moe-rl-bench run --help for options"

install_missing_packages
build release
step "Running build/release/moe-rl-bench run configs/quickstart.yaml"
build/release/moe-rl-bench run configs/quickstart.yaml || fail "the run ended with exit code $?" "read its words above"
