# shellcheck shell=bash
# Starts a script again in network, mount and process namespaces of its own, or skips it where they are not permitted.

skip() {
  echo "skipped: $1"
  exit 77
}

fail() {
  echo "FAILED: $*"
  exit 1
}

# in_namespaces SCRIPT ARGUMENTS...: returns once inside.
in_namespaces() {
  [ "${NETLAB_INSIDE:-}" != yes ] || return 0
  local tool words namespaces=(--net --mount --pid --fork --kill-child --mount-proc)
  for tool in ip tc unshare nsenter mpirun; do
    command -v $tool >/dev/null || skip "there is no $tool"
  done
  [ "$(id -u)" -eq 0 ] || namespaces=(--map-root-user "${namespaces[@]}")
  words=$(unshare "${namespaces[@]}" ip link add br0 type bridge 2>&1) || skip "namespaces: $words"
  # All that is started inside dies with the first process there, and that with this one.
  NETLAB_INSIDE=yes exec unshare "${namespaces[@]}" "$@"
}
