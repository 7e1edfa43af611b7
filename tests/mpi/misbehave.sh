#!/bin/sh
# misbehave.sh WAY PROGRAM MPIRUN...: what is left, and how it ends, when ranks misbehave. MPIRUN starts two ranks.
way=$1
program=$2
shift 2

fail() {
  echo "FAILED: $*"
  exit 1
}

case $way in
  silent)
    # One rank waits in vain: it says so, and takes the others down with its own code.
    text=$("$@" "$program" silent 2>&1)
    code=$?
    echo "$text"
    [ $code -eq 6 ] || fail "the exit code is $code and not 6, a time limit"
    echo "$text" | grep -q 'error: barrier: waited 0.5 s' || fail "the error of the rank that waited is missing"
    ;;
  crash)
    # A rank that is killed cannot tidy up; the next run does it, and leaves nothing itself.
    text=$("$@" "$program" crash 2>&1)
    echo "$text"
    pid=$(echo "$text" | sed -n 's/.*killed pid \([0-9]*\).*/\1/p')
    [ -n "$pid" ] || fail "no rank was killed"
    find /dev/shm -name "mrb-*-$pid-*" | grep . || fail "the killed rank left nothing, so there is nothing to test"
    "$@" "$program" well || fail "the next run failed"
    find /dev/shm -name "mrb-*-$pid-*" | grep . && fail "the next run did not remove what the killed rank left"
    exit 0
    ;;
esac
