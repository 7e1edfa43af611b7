# shellcheck shell=bash
# Three hosts on one machine, for netlab.sh: each with its own network, name, /dev/shm and one interface per rail. Nothing
# has a name outside of the namespaces of the shell that sources this, so all of it is gone with that shell.
#
#   here       br0 ──────────┬──────────┬──────────       br1 the same
#                            │          │          │
#   node0..2          eth0 198.18.0.11  ..12       ..13   eth1 198.18.1.11 ...

readonly HOSTS=3 RAILS=2
export LAB=/mnt
mount -t tmpfs tmpfs "$LAB"

pid_of() { cat "$LAB/node$1.pid"; }

# on HOST COMMAND...
on() {
  local host=$1
  shift
  nsenter -t "$(pid_of "$host")" -n -u -m -i -- "$@"
}

start_host() {
  local host=$1 rail
  # shellcheck disable=SC2016  # the new shell expands them
  unshare --net --uts --mount --ipc --propagation private bash -c '
    hostname "$1" && mount -t sysfs sysfs /sys && mount -t tmpfs -o size=512m tmpfs /dev/shm &&
      mount --bind "$2" /etc/hosts && exec sleep infinity' host "node$host" "$LAB/hosts" &
  echo $! >"$LAB/node$host.pid"
  # It has its own network once it sleeps.
  until [ "$(cat "/proc/$(pid_of "$host")/comm")" = sleep ]; do sleep 0.02; done
  on "$host" ip link set lo up
  for ((rail = 0; rail < RAILS; ++rail)); do
    ip link add "h${host}r$rail" type veth peer name "eth$rail" netns "$(pid_of "$host")"
    ip link set "h${host}r$rail" master "br$rail" up
    on "$host" ip address add "198.18.$rail.$((11 + host))/24" dev "eth$rail"
    on "$host" ip link set "eth$rail" up
  done
}

start_hosts() {
  local host rail
  mkdir "$LAB/bin"
  printf '#!/bin/sh\nexec "%s" --output-filename "%s" "$@"\n' "$(command -v mpirun)" "$LAB/ranks" >"$LAB/bin/mpirun"
  chmod +x "$LAB/bin/mpirun"
  ip link set lo up
  for ((rail = 0; rail < RAILS; ++rail)); do
    ip link add "br$rail" type bridge
    ip link set "br$rail" up
  done
  echo "127.0.0.1 localhost" >"$LAB/hosts"
  for ((host = 0; host < HOSTS; ++host)); do
    echo "198.18.0.$((11 + host)) node$host" >>"$LAB/hosts"
  done
  for ((host = 0; host < HOSTS; ++host)); do start_host "$host"; done
}

# Both rails of a host at once, as when its switch dies.
cut_links_of() {
  local rail
  for ((rail = 0; rail < RAILS; ++rail)); do ip link set "h$1r$rail" down; done
}

# in_ranks RANKS_PER_HOST COMMAND...: a command on node0 that starts ranks with mpirun, which finds the hosts in its
# environment, as in an MPIJob, and has nsenter where clusters have ssh. What each rank says is in $LAB/ranks, too: a host
# that is cut off tells nobody else.
in_ranks() {
  local per_host=$1 host
  shift
  for ((host = 0; host < HOSTS; ++host)); do echo "node$host slots=$per_host"; done >"$LAB/hostfile"
  on 0 env OMPI_MCA_orte_default_hostfile="$LAB/hostfile" OMPI_MCA_plm_rsh_agent="$HERE/agent.sh" \
    OMPI_MCA_oob_tcp_if_include=eth0 OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=eth0 \
    OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_orte_tmpdir_base="$LAB" PATH="$LAB/bin:$PATH" \
    "$@" --ranks $((per_host * HOSTS))
}
