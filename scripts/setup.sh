# shellcheck shell=bash
# What quickstart.sh and test.sh share: sourced by both, run by nobody.
# Installs what is missing with apt, then configures and builds a preset. Stops at the first failure with a reason.

set -euo pipefail

step() { printf '\n== %s\n' "$*"; }

fail() {
  printf 'error: %s\n  fix: %s\n' "$1" "$2" >&2
  exit 1
}

# Debian 12 and newer, Ubuntu 22.04 and newer have all of these.
readonly PACKAGES=(
  g++ cmake ninja-build git ca-certificates
  libfmt-dev libyaml-cpp-dev libcli11-dev nlohmann-json3-dev libdnnl-dev catch2 libboost-context-dev
  libopenmpi-dev openmpi-bin openssh-client libfabric-dev
)

install_missing_packages() {
  command -v dpkg-query >/dev/null ||
    fail "this is not a Debian or Ubuntu machine (no dpkg-query)" \
      "install by hand what these packages hold, then run cmake --preset release: ${PACKAGES[*]}"
  local missing=() package
  for package in "${PACKAGES[@]}"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    step "All ${#PACKAGES[@]} packages are installed"
    return
  fi
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      fail "not root, no sudo, and these packages are missing: ${missing[*]}" "as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  step "Installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq ||
    fail "apt-get update failed" "check the network and the apt sources; these packages are missing: ${missing[*]}"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" ||
    fail "apt-get could not install: ${missing[*]}" "read apt's words above; Debian 12 or Ubuntu 22.04 or newer is needed"
}

# build PRESET [CMAKE OPTIONS...]: into build/PRESET.
build() {
  local preset=$1
  shift
  step "Configuring build/$preset"
  cmake --preset "$preset" "$@" || fail "cmake could not configure" "read its words above"
  step "Building build/$preset"
  cmake --build --preset "$preset" || fail "the build failed" "read the compiler's words above"
}
