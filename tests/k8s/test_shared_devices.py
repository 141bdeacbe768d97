"""Shared devices on a real API server: annotations arrive with the Binding, locks and ConfigMap changes take effect."""

from collections.abc import Iterator

import pytest

from tests.builders import job
from tests.conftest import started
from tests.k8s.plain import GROUPS, PODS, Object, until
from tests.k8s.programs import ELECTION, Programs, programs_on
from tests.scheduler.plugins.deviceshare.cards import ask, card, containers, device_config, gpu_node
from volcano.kube.devices import vgpu

pytestmark = pytest.mark.k8s

SOON = 60.0
CONFIGURATION = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - {name: gang}
  - {name: predicates}
  - {name: proportion}
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true
      deviceshare.NodeLockEnable: true
      deviceshare.SchedulePolicy: binpack
      deviceshare.ScheduleWeight: 1
"""
GEOMETRY = """
nvidia:
  knownMigGeometries:
  - models: [H100]
    allowedGeometries: [{group: one, geometries: [{name: 1g, memory: 8000, count: 2}]}]
"""
NODE = "/api/v1/nodes/g"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    for cluster in started(tmp_path_factory):
        with programs_on(cluster, tmp_path_factory) as running:
            running.prepare()
            config = running.directory / "scheduler.conf"
            config.write_text(CONFIGURATION)
            running.start("scheduler", *ELECTION, "--scheduler-conf", str(config))
            register(running, gpu_node(cards=[card("GPU-a"), card("GPU-m", type="NVIDIA-H100", mode="mig")]))
            yield running


def register(programs: Programs, manifest: Object) -> None:
    """A node without kubelet; the API server taints new nodes until they are ready."""
    status = manifest.pop("status")
    for name in ("uid", "resourceVersion", "creationTimestamp"):
        manifest["metadata"].pop(name)
    programs.api.create("/api/v1/nodes", manifest)
    programs.api.patch(
        f"{NODE}/status", {"status": {name: status[name] for name in ("allocatable", "capacity")}}
    )
    programs.api.patch(NODE, {"spec": {"taints": None}})


def submit(programs: Programs, name: str, **annotations: str) -> None:
    """A pod in a PodGroup of its own, without controllers."""
    made = job(
        name,
        spec={**containers(ask(1, 4000)), "automountServiceAccountToken": False},
        annotations=annotations,
    )
    for path, manifest in ((GROUPS.format("default"), made.group), (PODS.format("default"), made.pods[0])):
        manifest.pop("status")
        for field in ("uid", "resourceVersion", "creationTimestamp"):
            manifest["metadata"].pop(field)
        programs.api.create_persistently(path, manifest)


def pod(programs: Programs, name: str) -> Object:
    return programs.api.get(f"{PODS.format('default')}/{name}-worker-0")


def bound(programs: Programs, name: str) -> Object:
    """Annotations of a pod, once it has a node."""
    until(lambda: bool(pod(programs, name)["spec"].get("nodeName")), SOON, programs.logs)
    found: Object = pod(programs, name)["metadata"]["annotations"]
    return found


def hand_out(programs: Programs, name: str) -> None:
    """What the device plugin does when a pod got its devices."""
    annotations = {vgpu.BIND_PHASE: vgpu.SUCCESS, vgpu.TO_ALLOCATE: "", vgpu.TIME: vgpu.HANDED_OUT}
    programs.api.patch(
        f"{PODS.format('default')}/{name}-worker-0", {"metadata": {"annotations": annotations}}
    )
    programs.api.patch(NODE, {"metadata": {"annotations": {vgpu.LOCK: None}}})


def test_a_pod_gets_its_cards_with_the_binding_and_the_node_is_locked_until_they_are_handed_out(
    programs: Programs,
) -> None:
    submit(programs, "first", **{vgpu.USE_UUID: "GPU-a"})
    found = bound(programs, "first")
    assert found[vgpu.ASSIGNED] == found[vgpu.TO_ALLOCATE] == "GPU-a,NVIDIA,4000,0:"
    assert (found[vgpu.NODE], found[vgpu.BIND_PHASE]) == ("g", "allocating")
    assert found[vgpu.TIME] == found[vgpu.BIND_TIME]
    assert programs.api.get(NODE)["metadata"]["annotations"][vgpu.LOCK].endswith("Z")
    submit(programs, "second")

    def waits() -> bool:
        conditions = pod(programs, "second").get("status", {}).get("conditions", ())
        return any("node(s) were locked" in condition.get("message", "") for condition in conditions)

    until(waits, SOON, programs.logs)
    hand_out(programs, "first")
    assert bound(programs, "second")[vgpu.ASSIGNED].startswith("GPU-a,")
    hand_out(programs, "second")


def test_a_new_config_map_takes_effect(programs: Programs) -> None:
    manifest = device_config(GEOMETRY)
    manifest["metadata"].pop("resourceVersion")
    programs.api.create("/api/v1/namespaces/kube-system/configmaps", manifest)
    submit(programs, "third", **{vgpu.MODE: "mig"})
    assert bound(programs, "third")[vgpu.ASSIGNED] == "GPU-m[one-0],NVIDIA,8000,0:"
