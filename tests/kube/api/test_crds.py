"""The CRDs are generated from their sources, complete, small enough, and valid on a real server."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.k8s.control_plane.build import program
from tests.k8s.control_plane.cluster import RealCluster
from volcano.apiserver.registry.strategies import strategy_for
from volcano.apiserver.schema import crds as served_crds
from volcano.base.clock import Instant
from volcano.kube.api import crds
from volcano.kube.api.kinds import CRD, OURS
from volcano.kube.api.manifest import Manifest

ROOT = Path(__file__).parents[3]
ANNOTATION_LIMIT = 256 * 1024
CORE = ("template", "volumeClaim", "metadata", "target", "active", "matchLabels", "matchExpressions")


def test_the_shipped_files_are_what_the_generator_writes() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "generate_crds.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_is_a_crd_for_each_of_our_kinds_with_its_names_scope_and_subresources() -> None:
    described = set()
    for crd in crds.load():
        crd["status"] = served_crds.first_status(crd, Instant(0, 0))
        described |= {served.kind for served in served_crds.served(crd)}
    assert described == set(OURS)


@pytest.mark.parametrize("crd", crds.load(), ids=lambda crd: str(crd["metadata"]["name"]))
def test_a_crd_is_kept_by_helm_and_fits_into_an_annotation(crd: Manifest) -> None:
    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert len(json.dumps(crd)) < ANNOTATION_LIMIT


@pytest.mark.parametrize("crd", crds.load(), ids=lambda crd: str(crd["metadata"]["name"]))
def test_a_crd_is_accepted_by_our_own_server(crd: Manifest) -> None:
    strategy = strategy_for(CRD)
    assert strategy.unknown_fields(crd) == []
    strategy.prune(crd)
    strategy.default(crd)
    strategy.prepare_for_create(crd, Instant(0, 0))
    assert strategy.validate(crd, None, "") == []


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("jobs.batch.volcano.sh", "STATUS MIN RUNNINGS AGE QUEUE*"),
        (
            "queues.scheduling.volcano.sh",
            "STATE WEIGHT PARENT AGE PENDING* INQUEUE* RUNNING* ALLOCATED*",
        ),
        ("podgroups.scheduling.volcano.sh", "STATUS MINMEMBER RUNNINGS AGE QUEUE"),
    ],
)
def test_columns_are_those_people_know(name: str, columns: str) -> None:
    crd = next(crd for crd in crds.load() if crd["metadata"]["name"] == name)
    found = served_crds.columns_of(crd["spec"]["versions"][0])
    assert " ".join(f"{each.name}{'*' * each.priority}" for each in found) == columns


def test_every_field_of_ours_says_what_it_means() -> None:
    silent = [
        f"{crd['spec']['names']['kind']}{path}"
        for crd in crds.load()
        for path, schema in _own_fields(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        if not schema.get("description")
    ]
    assert silent == []


def _own_fields(schema: Manifest, path: str = "", depth: int = 0) -> list[tuple[str, Manifest]]:
    """Fields down to the third level, without core types and references, whose fields are well known."""
    found = []
    for name, sub in (schema.get("properties") or {}).items():
        if name in CORE:
            continue
        found.append((f"{path}.{name}", sub))
        if depth < 2:
            found += _own_fields(sub, f"{path}.{name}", depth + 1)
    return found


@pytest.mark.k8s
def test_a_real_server_takes_and_establishes_every_crd(real_apiserver: RealCluster) -> None:
    kubectl = [str(program("kubectl")), "--kubeconfig", str(real_apiserver.kubeconfig)]
    files = [part for path in crds.FOLDER.glob("*.json") for part in ("-f", str(path))]
    applied = subprocess.run([*kubectl, "apply", *files], capture_output=True, text=True)
    assert applied.returncode == 0, applied.stderr
    names = [f"crd/{crd['metadata']['name']}" for crd in crds.load()]
    waited = subprocess.run(
        [*kubectl, "wait", "--for=condition=Established", "--timeout=60s", *names],
        capture_output=True,
        text=True,
    )
    assert waited.returncode == 0, waited.stderr
