#!/usr/bin/env bash
# install-efa.sh VERSION [OPTIONS OF THE INSTALLER]: libfabric, rdma-core, Open MPI and NCCL's OFI plug-in, in /opt/amazon.
# The kernel's part and its limits are the node's: a container has neither.
set -euo pipefail
version=$1
shift
folder=$(mktemp -d)
curl --fail --silent --show-error --location --retry 3 "https://efa-installer.amazonaws.com/aws-efa-installer-$version.tar.gz" |
  tar -xz -C "$folder"
cd "$folder/aws-efa-installer"
apt-get update
./efa_installer.sh -y --skip-kmod --skip-limit-conf --no-verify "$@"
rm -rf "$folder" /var/lib/apt/lists/*
/opt/amazon/efa/bin/fi_info --version
/opt/amazon/openmpi/bin/mpirun --version
