"""Are the overlays and components of scripts/eks, and what `manifest render` prints, MPIJobs that an outside judge takes?

manifests.py BINARY: for each overlay, alone, and for two of them with each component, what `kubectl kustomize` makes of it
 - passes the schema of the CRD, made strict, as python3-jsonschema reads it,
 - has no finding in `moe-rl-bench manifest check --strict`,
 - is, value by value, what `moe-rl-bench manifest render` prints for the same type of node and the same options.
So types of nodes are described once, in configs/instances. Exit code 77: skipped, with the reason.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing} (Debian: python3-jsonschema python3-yaml)")
    sys.exit(77)
if not shutil.which("kubectl"):
    print("skipped: there is no kubectl")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
EKS = ROOT / "scripts/eks"
OVERLAYS = {
    "p5": "p5.48xlarge", "p5e": "p5e.48xlarge", "p5en": "p5en.48xlarge", "p6-b200": "p6-b200.48xlarge",
    "p6-b300": "p6-b300.48xlarge", "cpu-c5n": "c5n.18xlarge", "cpu-c6in": "c6in.32xlarge", "cpu-hpc7a": "hpc7a.96xlarge",
}
WITH_COMPONENTS = ("p5en", "cpu-c6in")
COMPONENTS = {
    None: [],
    "launcher-as-worker": ["--launcher-works"],
    "hugepages": ["--hugepages", "5120Mi"],
    "efa-dra": ["--efa", "dra"],
    "capacity-block": ["--capacity-block", "cr-0123456789abcdef0"],
    "kueue": ["--queue", "moe-rl-bench", "--topology", "topology.k8s.aws/network-node-layer-2"],
}


def documents(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return [one for one in yaml.safe_load_all(done.stdout) if one], done.stdout


def of_kind(docs, kind):
    return [one for one in docs if one["kind"] == kind]


def check_strictly(binary, text, folder):
    file = folder / "job.yaml"
    file.write_text(text)
    done = subprocess.run([binary, "manifest", "check", "--strict", str(file)], capture_output=True, text=True, timeout=60)
    if done.returncode != 0 or "0 notes" not in done.stdout:
        raise SystemExit(done.stdout + done.stderr)


def main(binary):
    schema = jsonschema.Draft7Validator(json.loads((ROOT / "src/manifest/mpijob-v2beta1.schema.json").read_text()))
    assert sorted(OVERLAYS) == sorted(one.name for one in (EKS / "overlays").iterdir())
    assert sorted(filter(None, COMPONENTS)) == sorted(one.name for one in (EKS / "components").iterdir())
    count = 0
    # Within the tree: kustomize takes no absolute paths.
    with tempfile.TemporaryDirectory(dir=EKS, prefix=".test-") as name:
        folder = pathlib.Path(name)
        for overlay, instance in OVERLAYS.items():
            for component, options in COMPONENTS.items():
                if component and overlay not in WITH_COMPONENTS:
                    continue
                layers = {"resources": [f"../overlays/{overlay}"]}
                if component:
                    layers["components"] = [f"../components/{component}"]
                (folder / "kustomization.yaml").write_text(yaml.safe_dump(layers))
                made, text = documents(["kubectl", "kustomize", str(folder)])
                command = ["--command", "micro pair"] if overlay.startswith("cpu-") else []
                rendered, rendered_text = documents(
                    [binary, "manifest", "render", "--instance", instance, "--image", "moe-rl-bench:0.1.0",
                     "--set", "model.experts=64", *command, *options])
                for kind in ("MPIJob", "ResourceClaimTemplate"):
                    if of_kind(made, kind) != of_kind(rendered, kind):
                        raise SystemExit(f"{overlay} with {component}: {kind} differs from what render prints\n"
                                         f"{text}\n--- rendered:\n{rendered_text}")
                for job in of_kind(made, "MPIJob") + of_kind(rendered, "MPIJob"):
                    schema.validate(job)
                check_strictly(binary, text, folder)
                check_strictly(binary, rendered_text, folder)
                count += 1
    print(f"{count} combinations of overlay and component: schema, manifest check and manifest render agree")


main(sys.argv[1])
