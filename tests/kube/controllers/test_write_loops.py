"""A controller that rewrites an object over and over is delayed; one that makes progress is not."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from tests.cluster import SmallCluster
from volcano.base.clock import Instant
from volcano.base.metrics import CollectorRegistry, render
from volcano.controllers.kubernetes.deployment import DeploymentController
from volcano.controllers.kubernetes.replicaset import ReplicaSetController
from volcano.kube.api.kinds import BATCH_JOB, CONFIG_MAP, DEPLOYMENT, POD, REPLICA_SET, Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.operations import Patch
from volcano.kube.client.protocol import Event, Watch
from volcano.kube.controllers import write_loops
from volcano.kube.controllers.controller import Plan, Reconciler
from volcano.kube.controllers.runner import ControllerRunner
from volcano.kube.controllers.write_loops import MAX_REWRITES, WriteLoopMetrics

KEY = Key("default", "a")
MINUTE = 60.0


class _OneObject(Reconciler[Key]):
    """Reconciles one object of a kind; counts its own plans."""

    def __init__(self, kind: Kind, name: str) -> None:
        self.name = name
        self.kind = kind
        self.watches = (Watch(kind),)
        self.plans = 0
        super().__init__()

    def keys(self, event: Event) -> Iterable[Key]:
        return (KEY,)

    def reconcile(self, key: Key, now: Instant) -> Plan:
        found = self.indexer.get(self.kind, KEY)
        patch = self.patch(found, now) if found is not None else None
        if patch is None:
            return Plan()
        self.plans += 1
        return Plan([patch])

    def patch(self, found: Manifest, now: Instant) -> Patch | None:
        raise NotImplementedError


class Flipping(_OneObject):
    """Never reaches a stable state: writes the opposite of what it reads, with the time."""

    def patch(self, found: Manifest, now: Instant) -> Patch | None:
        flipped = "b" if found["data"]["value"] == "a" else "a"
        return Patch(CONFIG_MAP, KEY, {"data": {"value": flipped, "at": now.timestamp()}})


class Counting(_OneObject):
    """Writes a new value every time, without any reason but its own last write."""

    def patch(self, found: Manifest, now: Instant) -> Patch | None:
        return Patch(CONFIG_MAP, KEY, {"data": {"value": str(self.plans)}})


class Insisting(_OneObject):
    """Keeps an object at one state; another controller that wants another undoes it."""

    def __init__(self, kind: Kind, name: str, patch: Manifest) -> None:
        super().__init__(kind, name)
        self._patch = patch

    def patch(self, found: Manifest, now: Instant) -> Patch | None:
        return None if _contains(found, self._patch) else Patch(self.kind, KEY, self._patch)


def _contains(found: Manifest, wanted: Manifest) -> bool:
    return all(
        _contains(found.get(name) or {}, value) if isinstance(value, dict) else found.get(name) == value
        for name, value in wanted.items()
    )


class CountingPods(_OneObject):
    """Writes how many pods run, after every change."""

    def __init__(self) -> None:
        super().__init__(CONFIG_MAP, "counting-pods")
        self.watches = (Watch(CONFIG_MAP), Watch(POD))

    def patch(self, found: Manifest, now: Instant) -> Patch | None:
        running = sum(pod["status"]["phase"] == "Running" for pod in self.indexer.all(POD))
        if found["data"].get("running") == str(running):
            return None
        return Patch(CONFIG_MAP, KEY, {"data": {"running": str(running)}})


class Echo(_OneObject):
    """Copies a label of a batch Job into its annotations."""

    def patch(self, found: Manifest, now: Instant) -> Patch | None:
        wanted = "on" if found["spec"]["suspend"] else "off"
        if (found["metadata"].get("annotations") or {}).get("state") == wanted:
            return None
        return Patch(BATCH_JOB, KEY, {"metadata": {"annotations": {"state": wanted}}})


def start(
    cluster: SmallCluster, controller: Reconciler[Any], metrics: WriteLoopMetrics | None = None
) -> None:
    runner = ControllerRunner(controller, cluster.client, cluster.clock, write_loops=metrics)
    cluster._tasks.append(asyncio.create_task(runner.run()))


@pytest.mark.parametrize("looping", [Flipping, Counting])
async def test_a_looping_reconciler_is_delayed_logged_and_counted(
    looping: type[_OneObject], caplog: pytest.LogCaptureFixture
) -> None:
    registry = CollectorRegistry()
    async with SmallCluster() as cluster:
        controller = looping(CONFIG_MAP, "looping")
        await cluster.create(CONFIG_MAP, "a", data={"value": "a"})
        start(cluster, controller, WriteLoopMetrics(registry))
        await cluster.rest()  # ends at all, although the clock stands still
        assert MAX_REWRITES < controller.plans < MAX_REWRITES + 10
        before = controller.plans
        await cluster.pass_time(5 * MINUTE)
        assert before + 5 < controller.plans < before + 25  # delayed, not stopped
    message = "object rewritten in a loop, its reconciliation is delayed controller=looping"
    assert caplog.text.count(message) == 1
    text = render(registry).decode()
    assert 'volcano_controller_write_loops_total{controller="looping",kind="ConfigMap"} 1.0' in text
    assert 'volcano_controller_throttled_reconciles_total{controller="looping",kind="ConfigMap"}' in text


@pytest.mark.parametrize(
    ("kind", "patches"),
    [
        pytest.param(CONFIG_MAP, ({"data": {"value": "x"}}, {"data": {"value": "y"}}), id="data"),
        pytest.param(DEPLOYMENT, ({"spec": {"replicas": 1}}, {"spec": {"replicas": 2}}), id="spec"),
    ],
)
async def test_two_controllers_that_undo_each_other_are_delayed(
    kind: Kind, patches: tuple[Manifest, Manifest]
) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "c"}]}}
    spec = {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    async with SmallCluster() as cluster:
        await cluster.create(kind, "a", **(spec if kind is DEPLOYMENT else {"data": {"value": "x"}}))
        pair = [Insisting(kind, f"insisting-{n}", patch) for n, patch in enumerate(patches)]
        for controller in pair:
            start(cluster, controller)
        await cluster.rest()
        written = sum(controller.plans for controller in pair)
        assert MAX_REWRITES < written < 4 * MAX_REWRITES
        await cluster.pass_time(5 * MINUTE)
        assert sum(controller.plans for controller in pair) < written + 100


async def test_counting_many_pods_as_they_start_is_not_delayed() -> None:
    pods = 5 * MAX_REWRITES
    async with SmallCluster() as cluster:
        controller = CountingPods()
        await cluster.create(CONFIG_MAP, "a", data={"running": "0"})
        containers = [{"name": "main", "image": "main"}]
        for n in range(pods):
            await cluster.client.create(POD, _pod(f"p-{n}", containers))
        start(cluster, controller)
        await cluster.rest()
        for n in range(pods):
            await cluster.patch(POD, f"p-{n}", {"status": {"phase": "Running"}}, "status")
        assert (await cluster.get(CONFIG_MAP, "a"))["data"]["running"] == str(pods)
        assert controller.plans == pods


async def test_answering_changes_of_the_spec_is_not_delayed() -> None:
    async with SmallCluster() as cluster:
        controller = Echo(BATCH_JOB, "echo")
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "main"}]}}
        await cluster.create(BATCH_JOB, "a", spec={"suspend": True, "template": template})
        start(cluster, controller)
        for n in range(3 * MAX_REWRITES):
            await cluster.patch(BATCH_JOB, "a", {"spec": {"suspend": n % 2 == 0}})
        job = await cluster.get(BATCH_JOB, "a")
        assert job["metadata"]["annotations"]["state"] == "off"
        assert controller.plans >= 3 * MAX_REWRITES - 1


async def test_a_change_of_the_spec_ends_the_delay() -> None:
    async with SmallCluster() as cluster:
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "main"}]}}
        await cluster.create(BATCH_JOB, "a", spec={"suspend": True, "template": template})
        labels = [Insisting(BATCH_JOB, f"l{n}", {"metadata": {"labels": {"x": str(n)}}}) for n in range(2)]
        for controller in labels:
            start(cluster, controller)
        await cluster.rest()
        before = [controller.plans for controller in labels]
        await cluster.patch(BATCH_JOB, "a", {"spec": {"suspend": False}})
        assert [controller.plans for controller in labels] > before


async def test_regular_writes_at_a_moderate_rate_are_not_delayed() -> None:
    class Heartbeat(_OneObject):
        def reconcile(self, key: Key, now: Instant) -> Plan:
            found = self.indexer.get(CONFIG_MAP, KEY)
            if found is None or found["data"].get("at") == now.timestamp():
                return Plan(requeue_after=2.0)
            self.plans += 1
            return Plan([Patch(CONFIG_MAP, KEY, {"data": {"at": now.timestamp()}})])

    async with SmallCluster() as cluster:
        controller = Heartbeat(CONFIG_MAP, "heartbeat")
        await cluster.create(CONFIG_MAP, "a", data={"at": ""})
        start(cluster, controller)
        await cluster.rest()
        await cluster.pass_time(10 * MINUTE)
        assert controller.plans >= 298


async def test_a_deployment_that_a_user_scales_to_and_fro_is_followed_at_once() -> None:
    controllers = (DeploymentController(), ReplicaSetController())
    async with SmallCluster(*controllers) as cluster:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "c"}]}}
        spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        await cluster.create(DEPLOYMENT, "a", spec=spec)
        for number in range(101):
            await cluster.patch(DEPLOYMENT, "a", {"spec": {"replicas": (number + 1) % 2}})
            await cluster.pass_time(0.2, 0.2)
            (replica_set,) = await cluster.all(REPLICA_SET)
            assert replica_set["spec"]["replicas"] == (number + 1) % 2


class Copying(_OneObject):
    """Copies the replicas of one Deployment to another, plus `more`."""

    def __init__(self, name: str, source: str, target: str, more: int) -> None:
        super().__init__(DEPLOYMENT, name)
        self._source, self._target, self._more = Key("default", source), Key("default", target), more

    def reconcile(self, key: Key, now: Instant) -> Plan:
        source, target = (self.indexer.get(DEPLOYMENT, name) for name in (self._source, self._target))
        if source is None or target is None:
            return Plan()
        wanted = (source["spec"]["replicas"] + self._more) % 2
        if target["spec"]["replicas"] == wanted:
            return Plan()
        self.plans += 1
        return Plan([Patch(DEPLOYMENT, self._target, {"spec": {"replicas": wanted}})])


async def test_controllers_that_change_each_others_input_are_delayed() -> None:
    async with SmallCluster() as cluster:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "c"}]}}
        spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        for name in "ab":
            await cluster.create(DEPLOYMENT, name, spec=spec)
        pair = [Copying("forth", "a", "b", 1), Copying("back", "b", "a", 0)]
        for controller in pair:
            start(cluster, controller)
        await cluster.rest()
        written = sum(controller.plans for controller in pair)
        assert MAX_REWRITES < written < 6 * MAX_REWRITES
        await cluster.pass_time(5 * MINUTE)
        assert sum(controller.plans for controller in pair) < written + 400


def _pod(name: str, containers: list[Manifest]) -> Manifest:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}


def test_only_the_keys_written_last_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_loops, "MAX_TRACKED", 10)
    detector = write_loops.WriteLoopDetector("test")
    for number in range(50):
        key = Key("default", f"q{number}")
        operation = Patch(CONFIG_MAP, key, {"data": {"a": "b"}})
        detector.on_written(key, operation, {"metadata": {"generation": 1}}, 0.0)
    assert list(detector._recent) == [Key("default", f"q{number}") for number in range(40, 50)]
