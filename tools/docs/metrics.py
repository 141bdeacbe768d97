"""Metrics that the programs export, read from a running cluster after one job."""

import asyncio
import re
import tempfile
from pathlib import Path

from tools.docs.markdown import code, codes, page, table
from volcano.base.clock import SystemClock
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import ClusterOptions
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import load_client_config
from volcano.nodes.pools import parse_pools

NAME = "metrics"
SECONDS = 60.0
INTRODUCTION = """\
`volcano up` exports the metrics of all its components at `/metrics` of the API server (`kubectl get --raw /metrics`).
Local nodes with GPUs and `nvidia-ml-py` add `volcano_gpu_*` ([their meaning](../how-to/gpus-on-local-nodes.md)).
On Kubernetes each program exports its own. Names and labels are Volcano's and Kubernetes' own where they have them.
"""


def metrics_page() -> str:
    text = asyncio.run(exported())
    rows = []
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        if name.endswith("_created"):  # when the metric was created, an addition of the client library
            continue
        help = re.search(rf"^# HELP {name} (.*)$", text, re.MULTILINE)
        labels = re.search(rf"^{name}(?:_bucket|_total|_count)?\{{(.*)\}} ", text, re.MULTILINE)
        named = [label for label in re.findall(r'(\w+)="', labels[1] if labels else "") if label != "le"]
        rows.append((code(name), kind, codes(named), help[1] if help else ""))
    parts = {
        "Scheduler, controllers and queues": [row for row in rows if row[0].startswith("`volcano_")],
        "API server, work queues and process": [row for row in rows if not row[0].startswith("`volcano_")],
    }
    return page(
        "Metrics",
        INTRODUCTION,
        *(
            f"## {title}\n\n" + table(["metric", "type", "labels", "meaning"], sorted(part))
            for title, part in parts.items()
        ),
    )


async def exported() -> str:
    with tempfile.TemporaryDirectory() as directory:
        options = ClusterOptions(Path(directory), durable=False, pools=parse_pools([1], []), sim_duration=0.0)
        async with LocalCluster(options) as cluster:
            settings = load_client_config({}, kubeconfig=str(cluster.kubeconfig))
            client = connect(settings, clock=SystemClock())
            try:
                await client.create(JOB, one_job())
                await completed(cluster)
                return (await client.raw("GET", "/metrics")).body.decode()
            finally:
                await client.close()


async def completed(cluster: LocalCluster) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            job = await cluster.client.get(JOB, Key("default", NAME))
            if ((job.get("status") or {}).get("state") or {}).get("phase") == "Completed":
                return
            await asyncio.sleep(0.05)


def one_job() -> dict[str, object]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": {"minAvailable": 1, "tasks": [{"name": "main", "replicas": 1, "template": template}]},
    }
