#!/bin/sh
# ssh.sh [OPTIONS] HOST COMMAND...: what ssh is to mpirun in an MPIJob. As from sshd, a command inherits nothing of its pod's
# environment, nor of the caller's.
while :; do
  case $1 in
    -o | -F | -p | -l | -i) shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
host=${1%%.*}
shift
exec nsenter -t "$(cat "$LAB/$host.pid")" -n -u -m -i -p -- \
  env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /bin/sh -c "$*"
