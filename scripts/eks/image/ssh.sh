#!/usr/bin/env bash
# sshd as the MPI operator expects it: keys are mounted into every pod of one job, whose hosts are new each time.
set -euo pipefail
mkdir -p /run/sshd /results
cat >/etc/ssh/ssh_config.d/mpi.conf <<'CONFIG'
Host *
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
CONFIG
cat >/etc/ssh/sshd_config.d/mpi.conf <<'CONFIG'
StrictModes no
PasswordAuthentication no
MaxStartups 200
CONFIG
