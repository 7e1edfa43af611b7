#!/bin/sh
# agent.sh HOST COMMAND...: what ssh is to mpirun on a cluster.
host=$1
shift
exec nsenter -t "$(cat "$LAB/$host.pid")" -n -u -m -i -- /bin/sh -c "$*"
