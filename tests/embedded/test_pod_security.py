"""Pods on this host: the example manifests meet the default level, and real pods meet their limits."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.embedded.test_cluster import cluster, until
from volcano.apiserver.admission.podsecurity.admission import TEMPLATES
from volcano.apiserver.admission.podsecurity.policy import LevelVersion
from volcano.cli.volcano.pod_security import SHARED_HOST_LEVEL, pod_security
from volcano.embedded.cluster import LocalCluster
from volcano.embedded.options import LocalNodeOptions
from volcano.kube.api.errors import Forbidden
from volcano.kube.api.kinds import BUILT_IN, EVENT, OURS, POD, by_gvk
from volcano.kube.api.manifest import Key, Manifest
from volcano.nodes.runtimes.probe import probe

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "examples").glob("*.yaml"), *(ROOT / "tests/manifests").rglob("*.yaml")])
KINDS = by_gvk((*BUILT_IN, *OURS))


def templates(path: Path) -> list[Manifest]:
    """The pods and pod templates of a file."""
    found = []
    for document in yaml.safe_load_all(path.read_text()):
        given = document or {}
        kind = KINDS.get((str(given.get("apiVersion")), str(given.get("kind"))))
        if kind == POD:
            found.append(document)
        elif kind is not None and kind in TEMPLATES:
            found += [template for _, template in TEMPLATES[kind](document)]
    return found


def test_every_example_meets_the_level_of_a_cluster_on_this_host() -> None:
    found = [template for path in FILES for template in templates(path)]
    assert len(found) > 20
    level = LevelVersion(SHARED_HOST_LEVEL)
    for template in found:
        assert level.violations(template.get("metadata") or {}, template["spec"]) == []


def pod(name: str, script: str, **spec: Any) -> Manifest:
    main = {"name": "main", "image": "none", "command": ["python3", "-c", script]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [main], "restartPolicy": "Never", "nodeName": "local-0", **spec},
    }


async def finished(running: LocalCluster, name: str) -> Manifest:
    async def check() -> Manifest | None:
        found = await running.client.get(POD, Key("default", name))
        return found if found["status"]["phase"] in ("Succeeded", "Failed") else None

    result: Manifest = await until(check, 60.0)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["netns", "userns", "plain"])
async def test_a_real_pod_has_the_profile_and_not_the_keys(tmp_path: Path, runtime: str) -> None:
    if not probe(runtime).available:
        pytest.skip(probe(runtime).reason)
    script = (
        "import ctypes, platform, subprocess\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "number = {'x86_64': 250, 'aarch64': 219}[platform.machine()]\n"  # keyctl
        "denied = libc.syscall(number, 0, -3, 0) == -1 and ctypes.get_errno() == 1\n"
        "unshared = libc.unshare(0x04000000) == 0\n"
        "assert subprocess.run(['true']).returncode == 0\n"
        "raise SystemExit(0 if denied and not unshared else 3)\n"
    )
    local = LocalNodeOptions(1, runtime)
    async with cluster(tmp_path / "data", local=local, durable=True) as running:
        profile = {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}
        await running.client.create(POD, pod("limited", script, **profile))
        limited = await finished(running, "limited")
        assert limited["status"]["phase"] == "Succeeded", limited["status"]
        volume = {"volumes": [{"name": "v", "hostPath": {"path": str(tmp_path)}}]}
        await running.client.create(POD, pod("thief", "", **volume))

        async def refused() -> bool:
            events = (await running.client.list(EVENT)).items
            return any(
                "is not mounted: it contains or is part of" in event.get("message", "") for event in events
            )

        await until(refused, 30.0)
        other = {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "x.json"}}}
        await running.client.create(POD, pod("other", "", **other))

        async def explained() -> bool:
            found = await running.client.get(POD, Key("default", "other"))
            statuses = found["status"].get("containerStatuses") or [{}]
            waiting = (statuses[0].get("state") or {}).get("waiting") or {}
            return "seccompProfile Localhost" in waiting.get("message", "")

        await until(explained, 30.0)


async def test_a_cluster_rejects_pods_that_use_its_host(tmp_path: Path) -> None:
    configuration = pod_security(None, shared_host=True)
    async with cluster(tmp_path, pod_security=configuration) as running:
        volume = {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}
        with pytest.raises(Forbidden, match='violates PodSecurity "baseline:latest": hostPath volumes'):
            await running.client.create(POD, pod("thief", "", **volume))
