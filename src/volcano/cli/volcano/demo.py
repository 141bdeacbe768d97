"""`volcano demo`: gangs that compete for this host, and a simulated one."""

import os
import shutil
import sys
from pathlib import Path

from volcano.cli.volcano.example_files import path_of
from volcano.embedded.files import Document, read_files
from volcano.embedded.options import ClusterOptions, LocalNodeOptions
from volcano.kube.api import names
from volcano.kube.api.manifest import Manifest
from volcano.nodes.pools import parse_pools

HERE = Path(__file__).parent
NODES = 2
SIMULATED = "cpu=32,memory=256Gi,nvidia.com/gpu=8,name=gpu"
SIM_DURATION = 5.0
# Two workers fill a node, so that one gang of four runs at a time.
SHARE = 0.45
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
REAL = {"matchExpressions": [{"key": names.SIMULATED, "operator": "DoesNotExist"}]}
FIRST: Manifest = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "goes-first"},
    "value": 1000,
}
SIMULATED_NODES = 4
CONTROL_PLANE_NODES = 1
INTRODUCTION = f"""\
{NODES + SIMULATED_NODES + CONTROL_PLANE_NODES} nodes: this host as {NODES}, {SIMULATED_NODES} simulated with 8 GPUs \
each, and {CONTROL_PLANE_NODES} of the control plane, which runs no jobs.
  train     four real workers fit one line together, each with its own share of the data
  evaluate  four more request the same processors: none starts before all of them can
  llm       32 GPUs on the simulated nodes
"""


def next_steps() -> str:
    """Commands to try after the demo, with the directory of the programs if it is not on the PATH."""
    programs = Path(sys.executable).parent
    found = shutil.which("volcano")
    where = programs.relative_to(Path.cwd()) if programs.is_relative_to(Path.cwd()) else programs
    prefix = "" if found and Path(found).parent == programs else f"{where}/"
    steps = (
        ("volcano examples list", "more jobs, such as PyTorch, MPI and fair shares"),
        ("volcano examples run array", "run one of them"),
        ("volcano up --nodes 4 --detach", "a cluster that stays, for kubectl and vcctl"),
        ("volcano dashboard --link", "open the cluster in a browser"),
        ("vcctl submit --workers 4 -- hostname", "a gang of your own on it"),
        ("vcctl top", "follow queues, jobs and nodes"),
        ("volcano down", "stop it"),
    )
    width = max(len(prefix + command) for command, _ in steps) + 2
    return "\nTo try next:\n" + "\n".join(f"  {prefix + command:<{width}}{text}" for command, text in steps)


def settings(directory: Path) -> ClusterOptions:
    """Options of a temporary cluster with local and simulated nodes."""
    return ClusterOptions(
        directory,
        durable=False,
        pools=parse_pools([SIMULATED_NODES], [SIMULATED]),
        sim_duration=SIM_DURATION,
        local=LocalNodeOptions(NODES, keep_logs=True),
    )


def manifests() -> list[Document]:
    """Jobs with requests that fit this host, whatever its number of CPUs."""
    documents = read_files([str(path_of("allreduce")), str(HERE / "demo.yaml")])
    share = f"{int(1000 * SHARE * (os.cpu_count() or 1) / NODES)}m"
    for document in documents:
        if document.manifest["metadata"]["name"] in ("train", "evaluate"):
            for task in document.manifest["spec"]["tasks"]:
                pod = task["template"]["spec"]
                pod["containers"][0]["resources"]["requests"]["cpu"] = share
                pod["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [REAL]}}}
        if document.manifest["metadata"]["name"] == "train":
            document.manifest["spec"]["priorityClassName"] = FIRST["metadata"]["name"]
    return [Document("demo", FIRST), *documents]
