"""Commands print objects without spec and status, as a server without our admission may store them."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.cli.conftest import Embedded, Vcctl
from volcano.kube.api.errors import NotFound
from volcano.kube.api.kinds import JOB, JOB_FLOW, JOB_TEMPLATE, POD_GROUP, QUEUE, Kind
from volcano.kube.api.manifest import Key

BARE = "bare"
KINDS = (JOB, QUEUE, POD_GROUP, JOB_FLOW, JOB_TEMPLATE)


@pytest.fixture(autouse=True)
def bare_objects(embedded: Embedded, namespace: str) -> Iterator[None]:
    async def store() -> None:
        for kind in KINDS:
            put(embedded, kind, namespace)

    embedded.run(store())
    yield
    for kind in KINDS:
        with suppress(NotFound):
            embedded.delete(kind, Key(namespace if kind.namespaced else "", BARE))


def put(embedded: Embedded, kind: Kind, namespace: str) -> None:
    metadata = {"name": BARE, "uid": f"uid-{kind.kind}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    if kind.namespaced:
        metadata["namespace"] = namespace
    manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    embedded.cluster.registry.store.put(kind.resource, manifest, None)


@pytest.mark.parametrize(
    "words",
    [
        ("job", "list"),
        ("job", "list", "-o", "wide"),
        ("job", "view", "-N", BARE),
        ("job", "describe", BARE),
        ("queue", "list"),
        ("queue", "get", "-n", BARE),
        ("queue", "tree"),
        ("podgroup", "list"),
        ("podgroup", "get", BARE),
        ("podgroup", "describe", BARE),
        ("jobflow", "list"),
        ("jobflow", "get", "-N", BARE),
        ("jobflow", "describe", "-N", BARE),
        ("jobtemplate", "list"),
        ("jobtemplate", "get", "-N", BARE),
        ("jobtemplate", "describe", "-N", BARE),
        ("pod", "list"),
    ],
    ids=" ".join,
)
def test_a_command_prints_objects_without_spec(vcctl: Vcctl, words: tuple[str, ...]) -> None:
    result = vcctl(*words)
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize("program", ["vjobs", "vqueues"])
def test_a_short_command_prints_objects_without_spec(vcctl: Vcctl, program: str) -> None:
    result = vcctl(program=program)
    assert (result.code, result.err) == (0, "")
