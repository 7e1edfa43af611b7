#!/usr/bin/env bash
# Installs what is missing, builds, and passes the tests: unit tests in one process, MPI tests on four ranks.
cd "$(dirname "$0")/.." || exit 1
. scripts/setup.sh
[ $# -eq 0 ] || fail "test.sh takes no arguments, it got: $*" "run ctest --preset release -R NAME for some of the tests"

install_missing_packages
build release
step "Testing build/release"
ctest --preset release || fail "tests failed" "read the failures above"
