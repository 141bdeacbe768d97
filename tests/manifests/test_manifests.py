"""The documented manifests: accepted unchanged, and rejected by field when one field is invalid."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from volcano.apiserver.interfaces import Strategy
from volcano.apiserver.registry.strategies import strategy_for
from volcano.apiserver.schema import crds
from volcano.base.clock import Instant
from volcano.kube.api import crds as our_crds
from volcano.kube.api.errors import BadRequest, Cause
from volcano.kube.api.kinds import BUILT_IN, Kind, by_gvk
from volcano.kube.api.manifest import Manifest

NOW = Instant(1_800_000_000.0, 0.0)
FOLDER = Path(__file__).parent


def _table() -> dict[tuple[str, str], tuple[Kind, Strategy]]:
    table: dict[tuple[str, str], tuple[Kind, Strategy]] = {
        name: (kind, strategy_for(kind)) for name, kind in by_gvk(BUILT_IN).items()
    }
    for crd in our_crds.load():
        crd["status"] = crds.first_status(crd, NOW)
        for served in crds.served(crd):
            table[served.kind.api_version, served.kind.kind] = (served.kind, served.strategy)
    return table


TABLE = _table()


def _manifests() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*.yaml")):
        for manifest in yaml.safe_load_all(path.read_text()):
            yield pytest.param(manifest, id=f"{path.stem}: {manifest['kind']} {manifest['metadata']['name']}")


def _written(manifest: Manifest) -> tuple[list[str], list[Cause]]:
    """Unknown fields and validation errors of a new object."""
    kind, strategy = TABLE[manifest["apiVersion"], manifest["kind"]]
    manifest = copy.deepcopy(manifest)
    if kind.namespaced:
        manifest["metadata"].setdefault("namespace", "default")
    unknown = strategy.unknown_fields(manifest)
    strategy.prune(manifest)
    strategy.default(manifest)
    strategy.prepare_for_create(manifest, NOW)
    return unknown, strategy.validate(manifest, None, "")


@pytest.mark.parametrize("manifest", list(_manifests()))
def test_a_manifest_is_accepted_unchanged(manifest: Manifest) -> None:
    assert _written(manifest) == ([], [])


def _breakable(value: Any, path: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Every field below the metadata, as a path and the steps that lead to it."""
    pairs: list[tuple[Any, str, Any]] = []
    if isinstance(value, dict):
        pairs = [
            (key, f"{path}.{key}" if path else key, item)
            for key, item in value.items()
            if path or key not in ("apiVersion", "kind", "metadata")
        ]
    elif isinstance(value, list):
        pairs = [(index, f"{path}[{index}]", item) for index, item in enumerate(value)]
    for step, name, item in pairs:
        yield name, [step]
        for deeper, steps in _breakable(item, name):
            yield deeper, [step, *steps]


def _broken(manifest: Manifest, steps: list[Any]) -> Manifest:
    """The manifest with one field of a type it cannot have."""
    result = copy.deepcopy(manifest)
    holder: Any = result
    for step in steps[:-1]:
        holder = holder[step]
    holder[steps[-1]] = {"broken": []} if not isinstance(holder[steps[-1]], dict) else "broken"
    return result


def _quoted(path: str) -> str:
    """The last name in a path, as decoding errors of built-in kinds mention it."""
    return path.rpartition(".")[2].partition("[")[0]


@pytest.mark.parametrize("manifest", list(_manifests()))
def test_any_field_of_the_wrong_type_is_rejected_by_its_path(manifest: Manifest) -> None:
    kind, _ = TABLE[manifest["apiVersion"], manifest["kind"]]
    for path, steps in _breakable(manifest):
        if kind in BUILT_IN:
            with pytest.raises(BadRequest, match=_quoted(steps[0])):
                _written(_broken(manifest, steps))
        else:
            fields = [cause.field for cause in _written(_broken(manifest, steps))[1]]
            assert path in fields, f"{path} is invalid, but the errors name {fields}"


@pytest.mark.parametrize("manifest", list(_manifests()))
def test_a_misspelt_field_is_named(manifest: Manifest) -> None:
    for name in manifest.keys() - {"apiVersion", "kind", "metadata"}:
        misspelt = copy.deepcopy(manifest)
        misspelt[f"{name}x"] = misspelt.pop(name)
        assert _written(misspelt)[0] == [f'unknown field "{name}x"']


@pytest.mark.parametrize(
    ("name", "field", "value", "named"),
    [
        ("job-policies.yaml", "spec.tasks[0].replicas", -1, "spec.tasks[0].replicas"),
        ("job-policies.yaml", "spec.tasks[0].name", "Main", "spec.tasks[0].name"),
        ("job-policies.yaml", "spec.policies[0].event", "Sunrise", "spec.policies[0].event"),
        ("job-policies.yaml", "spec.tasks", [], "spec.tasks"),
        ("job-policies.yaml", "spec.queue", "No Such", "spec.queue"),
        ("job-policies.yaml", "spec.minAvailable", "three", "spec.minAvailable"),
        ("queue-ml-training.yaml", "spec.weight", 0, "spec.weight"),
        ("queue-ml-training.yaml", "spec.capability.cpu", "lots", "spec.capability.cpu"),
        ("podgroup-training-job.yaml", "spec.minMember", -1, "spec.minMember"),
        ("podgroup-training-job.yaml", "metadata.name", "Training", "metadata.name"),
    ],
)
def test_a_value_out_of_bounds_is_rejected_by_its_path(name: str, field: str, value: Any, named: str) -> None:
    manifest = next(iter(yaml.safe_load_all((FOLDER / name).read_text())))
    holder: Any = manifest
    *way, last = field.replace("]", "").replace("[", ".").split(".")
    for step in way:
        holder = holder[int(step)] if step.isdigit() else holder[step]
    holder[last] = value
    assert named in [cause.field for cause in _written(manifest)[1]]


def test_the_older_name_of_the_unknown_event_is_accepted() -> None:
    manifest = yaml.safe_load((FOLDER / "job-policies.yaml").read_text())
    manifest["spec"]["policies"][0]["event"] = "JobUnknown"
    assert _written(manifest) == ([], [])
