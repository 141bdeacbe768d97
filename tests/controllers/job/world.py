"""Jobs to test with, and a cluster with a job controller in it."""

from typing import Any

from tests.controllers.fake_cluster import FakeCluster
from volcano.controllers.job.controller import JobController
from volcano.controllers.job.plugins.plugin import KeyPair
from volcano.kube.api.kinds import COMMAND, JOB
from volcano.kube.api.manifest import Key, Manifest


class CountedKeys:
    """Key pairs told apart by their number."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> KeyPair:
        self.made += 1
        return KeyPair(f"private-{self.made}", f"public-{self.made}")


def controller(**options: Any) -> JobController:
    return JobController(**{"keys": CountedKeys(), **options})


def world(**options: Any) -> FakeCluster:
    """A cluster with a job controller at work."""
    cluster = FakeCluster(**options)
    cluster.start(controller())
    return cluster


def task(name: str = "main", replicas: int = 2, *, cpu: str = "1", **fields: Any) -> Manifest:
    spec: Manifest = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}],
    }
    spec |= fields.pop("spec", {})
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **fields}


def policy(event: str | None = None, action: str = "RestartJob", **fields: Any) -> Manifest:
    return {**({"event": event} if event else {}), "action": action, **fields}


def job(name: str = "j", tasks: list[Manifest] | None = None, **spec: Any) -> Manifest:
    metadata = {"name": name, **spec.pop("metadata", {})}
    return {"metadata": metadata, "spec": {"schedulerName": "volcano", "tasks": tasks or [task()], **spec}}


def submit(cluster: FakeCluster, manifest: Manifest) -> Manifest:
    created = cluster.put(JOB, manifest)
    cluster.run()
    return created


def running(manifest: Manifest, **options: Any) -> FakeCluster:
    """A cluster in which this job has come to run."""
    cluster = world(**options)
    submit(cluster, manifest)
    cluster.settle()
    return cluster


def command(cluster: FakeCluster, action: str, name: str = "j", **target: Any) -> None:
    """A user suspends, resumes or otherwise commands a job."""
    cluster.clock.advance(1)
    owner = {"apiVersion": JOB.api_version, "kind": JOB.kind, "name": name, "uid": "", **target}
    number = cluster._uid  # grows with every object
    cluster.put(COMMAND, {"metadata": {"name": f"cmd-{number}"}, "action": action, "target": owner})
    cluster.run()


def change(cluster: FakeCluster, patch: Manifest, name: str = "j") -> None:
    cluster.change(JOB, Key("default", name), patch)
    cluster.run()
