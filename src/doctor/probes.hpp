// What only a call can tell, each as text, so that a folder of files can stand in for a machine.
#pragma once

#include <string>

namespace mrb {

// One probe's text, or what `root`/probes/NAME holds when a root is given:
//
//   libraries  a line "name|built with|loaded|needs" for each
//   gpus       a line "driver VERSION cuda 13000", then "NAME|pci=...|memory_used_bytes=..." for each GPU; empty: no NVML
//   shm        "TYPE FREE_BYTES" of /dev/shm
//   hosts      a line "HOST ok" or "HOST why not" for each of `hosts` (one a line): its name and its sshd
std::string libraries_probe(const std::string& root);
std::string gpus_probe(const std::string& root);
std::string shm_probe(const std::string& root);
std::string hosts_probe(const std::string& root, const std::string& hosts);

}  // namespace mrb
