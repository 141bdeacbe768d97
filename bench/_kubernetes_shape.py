"""Load of `bench kubernetes`: number of jobs, pods per job, nodes and queues."""

from dataclasses import dataclass, replace

from volcano.kube.api.kinds import JOB, QUEUE
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import SIM_DURATION

NAMESPACE = "bench"
NODE = "cpu=32,memory=128Gi,pods=256"


@dataclass(frozen=True, slots=True)
class Shape:
    """One load. All pods fit on the nodes at once. With `queues`, jobs are assigned round-robin.

    With `finish`, pods end after `duration`; if that is not 0s, the load lasts until all jobs have ended.
    """

    name: str
    jobs: int
    members: int
    nodes: int
    queues: int = 0
    finish: bool = False
    duration: str = "0s"

    @property
    def until_end(self) -> bool:
        """Whether the load lasts until all jobs have ended."""
        return self.finish and self.duration != "0s"

    @property
    def pods(self) -> int:
        return self.jobs * self.members

    def scaled(self, scale: float) -> "Shape":
        """Smaller load of the same kind: fewer jobs, or fewer pods of a single job."""
        if scale >= 1:
            return self
        jobs = max(round(self.jobs * scale), min(self.jobs, 5))
        members = self.members if self.jobs > 1 else max(round(self.members * scale), 5)
        return replace(self, jobs=jobs, members=members, nodes=max(round(self.nodes * scale), 5))

    @property
    def title(self) -> str:
        queues = f" in {self.queues} queues" if self.queues else ""
        ending = f" that end after {self.duration}" if self.finish else ""
        return f"{self.name}: {self.jobs} x {self.members} pods{ending}{queues} on {self.nodes} nodes"


def job_manifest(shape: Shape, number: int) -> Manifest:
    """Complete gang: admission adds nothing."""
    container = {
        "name": "main",
        "image": "busybox:1",
        "command": ["sh", "-c", "echo training"],
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}},
    }
    template: Manifest = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    if shape.finish:
        template["metadata"] = {"annotations": {SIM_DURATION: shape.duration}}
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": f"job-{number}", "namespace": NAMESPACE},
        "spec": {
            "minAvailable": shape.members,
            "schedulerName": "volcano",
            "queue": f"queue-{number % shape.queues}" if shape.queues else "default",
            "maxRetry": 3,
            "tasks": [
                {
                    "name": "work",
                    "replicas": shape.members,
                    "minAvailable": shape.members,
                    "maxRetry": 3,
                    "template": template,
                }
            ],
        },
    }


def queue_manifests(shape: Shape) -> list[Manifest]:
    """Queues that the jobs name, with weights 1, 2, 3 ..."""
    return [
        {
            "apiVersion": QUEUE.api_version,
            "kind": QUEUE.kind,
            "metadata": {"name": f"queue-{number}"},
            "spec": {"weight": number + 1, "reclaimable": True},
        }
        for number in range(shape.queues)
    ]
