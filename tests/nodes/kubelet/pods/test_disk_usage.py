"""The disk usage of pods is measured periodically, and pods over a limit are evicted."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.nodes.kubelet.pods.bench import KubeletBench, bench, container, spec
from volcano.kube.api.manifest import Manifest
from volcano.nodes.kubelet.pods.disk_usage import (
    StorageLimits,
    StorageUsage,
    disk_bytes,
    exceeded_limit,
    limits_of,
    measure_usage,
)
from volcano.nodes.kubelet.pods.lifecycle import PodFailure

MIB = 1 << 20
SCRATCH = {"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}
EMPTY_DIRS = "volumes/kubernetes.io~empty-dir"


def limited(amount: Any, name: str = "c", **fields: Any) -> Manifest:
    return container(name, resources={"limits": {"ephemeral-storage": amount}}, **fields)


def fill(path: Path, size: int) -> None:
    """Limits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(size))
    with path.open("rb") as file:
        os.fsync(file.fileno())  # some file systems say what a file takes up only then


# Judging.


@pytest.mark.parametrize(
    ("pod", "limits"),
    [
        pytest.param(spec(), {}, id="no limits"),
        pytest.param(spec(volumes=[SCRATCH]), {"scratch": MIB}, id="a volume"),
        pytest.param(spec(volumes=[{"name": "v", "emptyDir": {}}]), {}, id="a volume without limit"),
        pytest.param(spec(volumes=[{"name": "v", "emptyDir": {"sizeLimit": "0"}}]), {}, id="a limit of 0"),
        pytest.param(spec(limited("2M")), {"c": 2_000_000, "": 2_000_000}, id="a container"),
        pytest.param(
            spec(limited("1Mi"), limited("2Mi", "d"), container("e")),
            {"c": MIB, "d": 2 * MIB, "": 3 * MIB},
            id="containers count together",
        ),
        pytest.param(
            spec(initContainers=[limited("5Mi", "i")]),
            {"": 5 * MIB},
            id="an init container counts in the total",
        ),
    ],
)
def test_the_limits_of_a_pod(pod: Manifest, limits: dict[str, int]) -> None:
    found = limits_of(pod)
    assert bool(found) is bool(limits)
    shown = {**found.volumes, **found.containers} | ({"": found.total} if found.total else {})
    assert {name: int(limit.amount) for name, limit in shown.items()} == limits


@pytest.mark.parametrize(
    ("pod", "used", "message"),
    [
        pytest.param(
            spec(volumes=[SCRATCH]),
            StorageUsage({"scratch": MIB + 1}, {}, MIB + 1),
            'Usage of EmptyDir volume "scratch" exceeds the limit "1Mi". ',
            id="a volume",
        ),
        pytest.param(
            spec(limited("1024Ki"), limited(1_000_000, "d")),
            StorageUsage({}, {"c": 0}, 3 * MIB),
            "Pod ephemeral local storage usage exceeds the total limit of containers 2048576. ",
            id="the whole pod",
        ),
        pytest.param(
            spec(limited("1024Ki")),
            StorageUsage({}, {"c": 2 * MIB}, 2 * MIB),
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
            id="the whole pod, of one container",
        ),
        pytest.param(
            spec(limited("1Mi"), limited("9Mi", "d")),
            StorageUsage({}, {"c": MIB + 1, "d": 5}, MIB + 6),
            'Container c exceeded its local ephemeral storage limit "1Mi". ',
            id="one container of several",
        ),
        pytest.param(
            spec(limited("1Mi"), volumes=[SCRATCH]),
            StorageUsage({"scratch": MIB}, {"c": MIB}, MIB),
            "",
            id="no more than it may",
        ),
    ],
)
def test_exceeding_a_limit_is_reported_as_by_the_kubelet(
    pod: Manifest, used: StorageUsage, message: str
) -> None:
    found = exceeded_limit(limits_of(pod), used)
    assert found == (PodFailure("Evicted", message, 1.0) if message else None)


def test_without_limits_nothing_is_too_much() -> None:
    assert exceeded_limit(StorageLimits(), StorageUsage({"v": 1 << 60}, {"c": 1 << 60}, 1 << 61)) is None


# Measuring.


def test_a_tree_is_measured_as_it_lies_on_the_disk(tmp_path: Path) -> None:
    empty = disk_bytes(tmp_path)
    fill(tmp_path / "a" / "b" / "one", MIB)
    os.link(tmp_path / "a" / "b" / "one", tmp_path / "a" / "again")
    os.symlink("/", tmp_path / "a" / "everything")
    (tmp_path / "holes").touch()
    os.truncate(tmp_path / "holes", 1 << 30)
    (tmp_path / "closed").mkdir(mode=0)
    assert MIB <= disk_bytes(tmp_path) - empty < MIB + 64 * 1024
    assert disk_bytes(tmp_path / "a" / "everything") < 64 * 1024
    assert disk_bytes(tmp_path / "missing") == 0


def test_what_is_whose(tmp_path: Path) -> None:
    fill(tmp_path / EMPTY_DIRS / "scratch" / "x", MIB)
    fill(tmp_path / EMPTY_DIRS / "memory" / "x", MIB)
    fill(tmp_path / "volumes" / "kubernetes.io~secret" / "s" / "x", MIB)
    fill(tmp_path / "containers" / "c" / "0.log", MIB)
    fill(tmp_path / "sandbox" / "c" / "upper" / "x", 2 * MIB)
    fill(tmp_path / "sandbox" / "_tmp" / "x", MIB)
    volumes = [
        SCRATCH,
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "s", "secret": {"secretName": "s"}},
    ]
    pod = spec(container("c"), container("d"), volumes=volumes)
    found = measure_usage(pod, tmp_path, {"d": 4 * MIB})
    assert {name: used // MIB for name, used in found.volumes.items()} == {"scratch": 1, "memory": 1}
    assert {name: used // MIB for name, used in found.containers.items()} == {"c": 3, "d": 4}
    assert found.total // MIB == 1 + 3 + 4 + 1


# Evicting.


async def evicted(it: KubeletBench, message: str) -> None:
    status = await it.status()
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "Evicted", message)
    assert await it.events("Evicted") == [message]


async def test_a_pod_whose_volume_grows_over_its_limit_is_evicted() -> None:
    async with bench() as it:
        made = await it.create(volumes=[SCRATCH], terminationGracePeriodSeconds=600)
        volume = it.options.pod_directory(made["metadata"]["uid"]) / EMPTY_DIRS / "scratch"
        fill(volume / "small", 1000)
        await it.pass_time(11)
        assert (await it.status())["phase"] == "Running"
        fill(volume / "large", MIB)
        await it.pass_time(11)
        await evicted(it, 'Usage of EmptyDir volume "scratch" exceeds the limit "1Mi". ')
        assert (await it.container())["state"]["terminated"]["exitCode"] != 0
        assert not volume.exists()


async def test_a_container_that_ignores_its_eviction_is_killed_soon() -> None:
    async with bench() as it:
        stubborn = limited("1Mi", "stubborn")
        await it.create(containers=[stubborn], terminationGracePeriodSeconds=600)
        it.runtime.layers["stubborn"] = 2 * MIB
        await it.pass_time(15)
        message = "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "
        await evicted(it, message)


async def test_eviction_continues_after_a_kubelet_restart() -> None:
    async with bench() as it:
        await it.create(containers=[limited("1Mi")])
        await it.stop()
        it.runtime.layers["c"] = 2 * MIB
        await it.begin()
        assert (await it.status())["phase"] == "Running"
        await it.pass_time(11)
        assert (await it.status())["reason"] == "Evicted"


async def test_pods_without_limits_are_not_measured() -> None:
    async with bench() as it:
        await it.create()
        it.runtime.layers["c"] = 1 << 50
        await it.pass_time(60, step=10)
        assert (await it.status())["phase"] == "Running"


async def test_a_pod_that_is_over_keeps_its_own_end() -> None:
    async with bench() as it:
        await it.create(containers=[limited("1Mi")], restartPolicy="Never")
        it.runtime.layers["c"] = 2 * MIB
        await it.end("c", 0)
        await it.pass_time(30, step=10)
        status = await it.status()
        assert status["phase"] == "Succeeded"
        assert "reason" not in status
