// What a manifest must hold, in four groups. Each adds what is wrong to `findings`.
#pragma once

#include "manifest/finding.hpp"
#include "manifest/job_view.hpp"

namespace mrb {

// Against the schema that the operator installs: unknown fields, kinds of values, required fields, enumerations.
void check_fields(const YamlNode& job, ManifestFindings&);

// What the operator demands before it starts anything; it says nothing when it refuses. Source: mpi-operator
// pkg/apis/kubeflow/validation.
void check_operator_rules(const JobView&, ManifestFindings&);

// What kubelet, the scheduler and EFA demand of the pods.
void check_pods(const JobView&, ManifestFindings&);

// What mpirun is told, and what of the environment reaches the ranks.
void check_launch(const JobView&, ManifestFindings&);

}  // namespace mrb
