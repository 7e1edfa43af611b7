# shellcheck shell=bash
# The pods of an MPIJob on one machine, for mpijob.sh: a launcher and three workers, each with its own network, name,
# /dev/shm, /etc and one interface per rail; workers have their own processes, too, and die with the first of them. What
# mpi-operator makes of an MPIJob called "bench" is here as it makes it: names, hostfile, environment.
#
#   here            br0 ───────────┬───────────────┬─────────────── ...       br1 the same
#                                  │               │
#   bench-launcher  eth0 198.18.0.11   bench-worker-0 ..12   -1 ..13   -2 ..14     eth1 198.18.1.11 ...

readonly JOB=bench RAILS=2
readonly LAUNCHER=$JOB-launcher WORKERS=("$JOB-worker-0" "$JOB-worker-1" "$JOB-worker-2")
readonly PODS=("$LAUNCHER" "${WORKERS[@]}")
export LAB=/mnt
mount -t tmpfs tmpfs "$LAB"

pid_of() { cat "$LAB/$1.pid"; }

# on POD COMMAND...
on() {
  local pod=$1 own_processes=-p
  shift
  [ "$pod" != $LAUNCHER ] || own_processes=
  nsenter -t "$(pid_of "$pod")" -n -u -m -i $own_processes -- "$@"
}

# The launcher sees the processes of the workers, as ssh.sh needs it.
start_pod() {
  local pod=$1 index=$2 rail apart=()
  [ "$pod" = $LAUNCHER ] || apart=(--pid --fork --kill-child --mount-proc)
  # shellcheck disable=SC2016  # the new shell expands them
  unshare --net --uts --mount --ipc "${apart[@]}" --propagation private bash -c '
    hostname "$1" && mount -t sysfs sysfs /sys && mount -t tmpfs -o size=2g tmpfs /dev/shm &&
      mount --bind "$2" /etc && exec sleep infinity' pod "$pod" "$LAB/etc" &
  local first=$!
  if [ "$pod" != $LAUNCHER ]; then
    until [ -n "$(cat "/proc/$first/task/$first/children")" ]; do sleep 0.02; done
    first=$(tr -d ' ' <"/proc/$first/task/$first/children")
  fi
  echo "$first" >"$LAB/$pod.pid"
  until [ "$(cat "/proc/$first/comm")" = sleep ]; do sleep 0.02; done  # then it has its own of everything
  on "$pod" ip link set lo up
  for ((rail = 0; rail < RAILS; ++rail)); do
    ip link add "p${index}r$rail" type veth peer name "eth$rail" netns "$first"
    ip link set "p${index}r$rail" master "br$rail" up
    on "$pod" ip address add "198.18.$rail.$((11 + index))/24" dev "eth$rail"
    on "$pod" ip link set "eth$rail" up
  done
}

start_pods() {
  local rail index
  cp -a /etc "$LAB/etc" 2>/dev/null || true  # some of it may be nobody's to read
  mkdir -p "$LAB/etc/mpi" "$LAB/bin"
  ip link set lo up
  for ((rail = 0; rail < RAILS; ++rail)); do
    ip link add "br$rail" type bridge
    ip link set "br$rail" up
  done
  echo "127.0.0.1 localhost" >"$LAB/etc/hosts"
  for index in "${!PODS[@]}"; do
    echo "198.18.0.$((11 + index)) ${PODS[$index]}.$JOB.default.svc ${PODS[$index]}" >>"$LAB/etc/hosts"
  done
  printf '#!/bin/sh\nexec "%s" --output-filename "%s" "$@"\n' "$(command -v mpirun)" "$LAB/ranks" >"$LAB/bin/mpirun"
  chmod +x "$LAB/bin/mpirun"
  for index in "${!PODS[@]}"; do start_pod "${PODS[$index]}" "$index"; done
}

# hostfile SLOTS POD...: as the operator writes it for Open MPI.
hostfile() {
  local slots=$1 pod
  shift
  for pod in "$@"; do echo "$pod.$JOB.default.svc slots=$slots"; done >"$LAB/etc/mpi/hostfile"
}

# in_launcher COMMAND...: with the operator's environment. btl and what follows it keep Open MPI on one network and from
# spinning on a machine that has fewer cores than ranks.
in_launcher() {
  on $LAUNCHER env -i LAB="$LAB" HOME=/root PATH="$LAB/bin:$PATH" K_MPI_JOB_ROLE=launcher \
    OMPI_MCA_orte_keep_fqdn_hostnames=true OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile \
    OMPI_MCA_plm_rsh_args="-o ConnectionAttempts=10" OMPI_MCA_plm_rsh_agent="$HERE/ssh.sh" \
    OMPI_MCA_oob_tcp_if_include=eth0 OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=eth0 \
    OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_orte_tmpdir_base="$LAB" "$@"
}

# Both rails at once, as when a switch dies.
set_links_of() {
  local index=$1 state=$2 rail
  for ((rail = 0; rail < RAILS; ++rail)); do ip link set "p${index}r$rail" "$state"; done
}
