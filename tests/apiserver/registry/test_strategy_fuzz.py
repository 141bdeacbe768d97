"""Whatever is written, a strategy either accepts it or says what is wrong: it never breaks."""

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
import yaml

from tests.apiserver import conformance
from tests.manifests.test_manifests import FOLDER, TABLE
from volcano.apiserver.interfaces import Strategy
from volcano.apiserver.schema.decoding import drop_nulls
from volcano.apiserver.schema.well_formed import well_formed
from volcano.kube.api import type_info
from volcano.kube.api.errors import ApiError, Cause
from volcano.kube.api.manifest import Manifest

ODD: tuple[Any, ...] = (
    None, "", 0, -1, 2**40, 1.5, True, "abc", "1Gi", "\u0000", "a" * 300, [], {}, [None], [{}], [""], [1], ["a"],
    {"a": None}, {"a": "b"}, {"": ""}, {"name": ""},
)  # fmt: skip


def samples() -> list[Manifest]:
    """A valid object of every built-in kind, and many of ours."""
    ours = [
        manifest
        for path in sorted(FOLDER.glob("*.yaml"))
        for manifest in yaml.safe_load_all(path.read_text())
        if "volcano.sh" in manifest["apiVersion"]
    ]
    return [*conformance.minimal_manifests(), *ours]


def _places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in steps:
        if (*way, step) not in (("apiVersion",), ("kind",), ("metadata",)):
            yield (*way, step)
        yield from _places(item, (*way, step))


def garbled(manifest: Manifest, random: Random) -> Manifest:
    """The manifest with up to three fields replaced by something odd, or dropped."""
    result = copy.deepcopy(manifest)
    for _ in range(random.randint(1, 3)):
        places = list(_places(result))
        if not places:
            break
        *way, last = random.choice(places)
        holder: Any = result
        for step in way:
            holder = holder[step]
        if isinstance(holder, dict) and random.random() < 0.2:
            del holder[last]
        else:
            holder[last] = copy.deepcopy(random.choice(ODD))
    return result


def _lived(strategy: Strategy, new: Manifest, old: Manifest) -> list[Cause]:
    """What a strategy says in the course of a creation and two updates."""
    strategy.unknown_fields(new)
    strategy.prune(new)
    strategy.default(new)
    strategy.prepare_for_create(new, conformance.NOW)
    causes = strategy.validate(new, None, "")
    for subresource in ("", "status"):
        changed = copy.deepcopy(new)
        strategy.prepare_for_update(changed, old, subresource, conformance.NOW)
        causes += strategy.validate(changed, old, subresource)
    return causes


def _fuzz(seed: int, rounds: int) -> tuple[int, int]:
    """How many garbled objects were refused, and how many accepted."""
    random, originals = Random(seed), samples()
    refused = accepted = 0
    for _ in range(rounds):
        original = random.choice(originals)
        kind, strategy = TABLE[original["apiVersion"], original["kind"]]
        old = copy.deepcopy(original)
        if kind.namespaced:
            old["metadata"].setdefault("namespace", "default")
        new = garbled(old, random)
        strategy.default(old)
        strategy.prepare_for_create(old, conformance.NOW)
        try:
            causes = _lived(strategy, new, old)
        except ApiError:
            refused += 1
            continue
        assert all(cause.reason and cause.message for cause in causes)
        refused, accepted = refused + bool(causes), accepted + (not causes)
    return refused, accepted


def test_odd_objects_are_refused_or_accepted_and_nothing_else() -> None:
    refused, accepted = _fuzz(seed=1, rounds=2_000)
    assert refused > 1_000
    assert accepted > 10


def test_a_quick_look_never_overlooks_what_a_close_look_finds() -> None:
    random, originals, quick = Random(7), conformance.minimal_manifests(), 0
    for _ in range(3_000):
        manifest = garbled(random.choice(originals), random)
        type_ = type_info.type_of(conformance.kind_of(manifest))
        assert type_ is not None
        if well_formed(type_.name)(manifest):
            quick += 1
            found = type_info.inspect(type_, manifest)
            assert (found.unknown, found.wrong) == ([], [])
            without_nulls = copy.deepcopy(manifest)
            drop_nulls(type_, without_nulls)
            assert without_nulls == manifest
    assert quick > 300


@pytest.mark.parametrize("kind", ["Pod", "Node", "Service", "Deployment", "Lease", "ConfigMap"])
def test_kinds_that_are_written_often_get_by_with_a_quick_look(kind: str) -> None:
    for manifest in conformance.minimal_manifests():
        if manifest["kind"] == kind:
            stored = conformance.prepared(manifest)
            entry = {
                "manager": "m",
                "operation": "Update",
                "apiVersion": "v1",
                "time": "2026-01-31T00:00:00Z",
            }
            stored["metadata"] |= {"creationTimestamp": "2026-01-31T00:00:00Z", "resourceVersion": "1"}
            stored["metadata"]["managedFields"] = [
                {**entry, "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}
            ]
            type_ = type_info.type_of(conformance.kind_of(manifest))
            assert type_ is not None
            assert well_formed(type_.name)(stored)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_odd_objects_are_refused_or_accepted_and_nothing_else(seed: int) -> None:
    refused, accepted = _fuzz(seed=seed, rounds=20_000)
    assert refused + accepted == 20_000
