"""Decisions that a re-run carries out are seen by its next cycle: claims, volumes, nominations and evictions."""

from typing import Any

from tests.builders import START, JobManifests, job, node, pod, podgroup, priority_class
from tests.dra import allocated, claim, claiming, gpu_class, gpus, request
from tests.scenario import cluster_of, config
from volcano.analysis.rerun.rerun import Rerun, run, starts
from volcano.analysis.rerun.state import ClusterState
from volcano.kube.api.manifest import Manifest

PREEMPT = config(actions=("enqueue", "allocate", "preempt", "backfill"))


def rerun(**parts: Any) -> Rerun:
    return run(ClusterState(cluster_of(**parts), START, seed=1), PREEMPT)


def claiming_job(name: str, **group: Any) -> JobManifests:
    """A job of one pod that needs the device of claim `<name>`."""
    member = pod(f"{name}-worker-0", group=name, cpu=1, **claiming(name))
    return JobManifests(podgroup(name, **group), (member,))


def test_a_device_is_given_to_one_pod_only_also_in_later_cycles() -> None:
    first = claiming_job("first")
    later = claiming_job("later", phase="Pending", min_resources={"cpu": "1"})  # admitted by the first cycle
    found = rerun(
        nodes=[node("n1", cpu=8)],
        jobs=[first, later],
        others=[gpu_class(), gpus("n1"), claim("first", request()), claim("later", request())],
    )
    assert found.cycles > 1
    assert len(found.placements) == 1
    assert starts(found, "default/first") is not starts(found, "default/later")
    reserved = [each.reserved_for for each in found.after.devices.claims.values() if each.allocation]
    assert [len(pods) for pods in reserved] == [1]


def test_the_devices_of_an_evicted_pod_are_free() -> None:
    held = allocated(claim("low", request()), "n1", "gpu-0", pods=["low-worker-0"])
    low = pod("low-worker-0", group="low", cpu=4, node="n1", priority=10, preemptable=True, **claiming("low"))
    found = rerun(
        nodes=[node("n1", cpu=4)],
        jobs=[
            JobManifests(podgroup("low", min_member=0, priority_class="low", phase="Running"), (low,)),
            job("high", 1, cpu=4, priority_class="high", priority=1000),
        ],
        others=[gpu_class(), gpus("n1"), held, priority_class("low", 10), priority_class("high", 1000)],
    )
    assert {victim.name for victim in found.victims} == {"low-worker-0"}
    assert starts(found, "default/high")
    (claimed,) = found.after.devices.claims.values()
    assert (claimed.allocation, claimed.reserved_for) == (None, ())


def volume(name: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
        },
        "status": {"phase": "Available"},
    }


def volume_claim(name: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {
            "resources": {"requests": {"storage": "1Gi"}},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
        },
        "status": {"phase": "Pending"},
    }


def test_a_volume_is_given_to_one_claim_only_also_in_later_cycles() -> None:
    def using(name: str, **group: Any) -> JobManifests:
        mounted = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}
        return JobManifests(
            podgroup(name, **group), (pod(f"{name}-worker-0", group=name, cpu=1, spec=mounted),)
        )

    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    found = rerun(
        nodes=[node("n1", cpu=8)],
        jobs=[using("first"), using("later", phase="Pending", min_resources={"cpu": "1"})],
        others=[storage_class, volume("disk"), volume_claim("first"), volume_claim("later")],
    )
    assert found.cycles > 1
    assert len(found.placements) == 1
    assert [each.volume for each in found.after.storage.claims.values()].count("disk") == 1
