"""CRDs: served versions, status and generation of custom resources, conflicting names."""

import copy
from typing import Any

import pytest

from tests.apiserver.registries import registry
from volcano.apiserver.interfaces import Attributes, Served
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.schema import crds
from volcano.base.clock import Instant
from volcano.kube.api.errors import Invalid
from volcano.kube.api.kinds import CRD, NAMESPACE, Kind
from volcano.kube.api.manifest import Key, Manifest, condition_of
from volcano.kube.client.protocol import Options, PatchType

NOW = Instant(1_800_000_000.0, 0.0)
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1, "default": 2}}},
        "status": {"type": "object", "properties": {"seen": {"type": "integer"}}},
    },
}


def version(name: str, **more: Any) -> Manifest:
    return {"name": name, "served": True, "storage": False, "schema": {"openAPIV3Schema": SCHEMA}, **more}


def definition(plural: str = "widgets", kind: str = "Widget", **more: Any) -> Manifest:
    """A CRD with a status subresource in its only version, by default."""
    spec: Manifest = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
        "versions": [version("v1", storage=True, subresources={"status": {}})],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {**spec, **more},
    }


def served(crd: Manifest) -> list[Served]:
    return list(crds.served({**crd, "status": crds.first_status(crd, NOW)}))


def test_a_crd_is_served_only_once_it_is_established() -> None:
    assert crds.served(definition()) == ()
    assert [each.kind for each in served(definition())] == [
        Kind("example.com", "v1", "Widget", "widgets", True, (), (), ("status",))
    ]


def test_each_served_version_is_a_kind_stored_under_the_storage_version() -> None:
    crd = definition(
        versions=[
            version("v1alpha1"),
            version("v1", storage=True),
            version("v2", served=False),
            version("v1beta1"),
        ]
    )
    found = served(crd)
    assert [each.kind.version for each in found] == ["v1", "v1beta1", "v1alpha1"]
    assert {each.storage.version for each in found} == {"v1"}


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (
            ["v1", "v2", "v10", "v1beta2", "v1beta10", "v3alpha1", "foo"],
            "v10 v2 v1 v1beta10 v1beta2 v3alpha1 foo",
        )
    ],
)
def test_versions_are_ranked_by_maturity_then_number(names: list[str], order: str) -> None:
    assert " ".join(sorted(names, key=crds.version_rank)) == order


def test_columns_short_names_categories_and_selectable_fields_are_taken_over() -> None:
    crd = definition(
        versions=[
            version(
                "v1",
                storage=True,
                additionalPrinterColumns=[{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                selectableFields=[{"jsonPath": ".spec.size"}],
                subresources={
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.seen"}
                },
            )
        ]
    )
    crd["spec"]["names"] |= {"shortNames": ["wd"], "categories": ["all"]}
    (found,) = served(crd)
    assert (found.kind.short_names, found.kind.categories, found.kind.subresources) == (
        ("wd",),
        ("all",),
        ("scale",),
    )
    assert [(column.name, column.json_path) for column in found.columns] == [("Size", ".spec.size")]
    assert found.selectable_fields == (".spec.size",)


def test_without_columns_of_its_own_a_kind_shows_its_age() -> None:
    assert [column.name for column in served(definition())[0].columns] == ["Age"]


def custom(**more: Any) -> Manifest:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default"},
        **more,
    }


def test_status_is_dropped_on_create_and_kept_by_updates() -> None:
    strategy = served(definition())[0].strategy
    old = custom(spec={"size": 3}, status={"seen": 9})
    strategy.prepare_for_create(old, NOW)
    assert "status" not in old
    assert old["metadata"]["generation"] == 1
    old["status"] = {"seen": 1}
    new = custom(spec={"size": 4}, status={"seen": 99})
    strategy.prepare_for_update(new, old, "", NOW)
    assert new["status"] == {"seen": 1}
    assert new["metadata"]["generation"] == 2


def test_a_status_update_changes_nothing_but_the_status() -> None:
    strategy = served(definition())[0].strategy
    old = custom(spec={"size": 3})
    old["metadata"] |= {"generation": 5, "labels": {"a": "b"}}
    new = custom(spec={"size": 4}, status={"seen": 1})
    strategy.prepare_for_update(new, old, "status", NOW)
    assert (new["spec"], new["status"], new["metadata"]["labels"]) == ({"size": 3}, {"seen": 1}, {"a": "b"})
    assert new["metadata"]["generation"] == 5


def test_without_a_status_subresource_status_is_a_field_like_any_other() -> None:
    strategy = served(definition(versions=[version("v1", storage=True)]))[0].strategy
    old = custom(status={"seen": 1})
    strategy.prepare_for_create(old, NOW)
    assert old["status"] == {"seen": 1}
    new = custom(status={"seen": 2})
    strategy.prepare_for_update(new, old, "", NOW)
    assert (new["status"], new["metadata"]["generation"]) == ({"seen": 2}, 2)


async def _create(server: Registry, kind: Kind, manifest: Manifest) -> Manifest:
    metadata = manifest["metadata"]
    key = Key(metadata.get("namespace", ""), metadata["name"])
    await server.create(Attributes("create", kind, key), copy.deepcopy(manifest))
    found = server.lookup.find(kind, key)
    assert found is not None
    return found


async def test_the_server_serves_a_new_kind_at_once_and_validates_its_objects() -> None:
    server = registry(admit=crds.admit_crd)
    await _create(
        server, NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    )
    stored = await _create(server, CRD, definition())
    assert stored["status"]["storedVersions"] == ["v1"]
    assert stored["status"]["acceptedNames"]["kind"] == "Widget"
    kind = server.kinds.find("example.com", "v1", "widgets")
    assert kind is not None
    created = await _create(server, kind.kind, custom(spec={"unknown": 1}))
    assert created["spec"] == {"size": 2}
    wrong = custom(spec={"size": 0})
    wrong["metadata"]["name"] = "wrong"
    with pytest.raises(Invalid) as rejected:
        await _create(server, kind.kind, wrong)
    assert rejected.value.message == (
        'Widget.example.com "wrong" is invalid: '
        "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"
    )


async def test_a_patch_that_removes_everything_keeps_the_identity() -> None:
    server = registry()
    await _create(
        server, NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    )
    await _create(server, CRD, definition())
    served = server.kinds.find("example.com", "v1", "widgets")
    assert served is not None
    created = await _create(server, served.kind, custom(spec={"size": 7}))
    key = Key(created["metadata"].get("namespace", ""), created["metadata"]["name"])
    options = Options(patch_type=PatchType.JSON, field_validation="Warn")
    request = Attributes("patch", served.kind, key, options=options)
    emptied = await server.patch(request, [{"op": "add", "path": "", "value": {}}])
    assert emptied.manifest()["metadata"]["uid"] == created["metadata"]["uid"]


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (definition("gadgets", "Widget"), "SingularConflict"),
        (definition("widget", "Gadget"), "PluralConflict"),
    ],
)
async def test_a_crd_whose_names_are_taken_is_stored_and_not_served(other: Manifest, reason: str) -> None:
    server = registry(admit=crds.admit_crd)
    await _create(server, CRD, definition())
    stored = await _create(server, CRD, other)
    accepted, established = condition_of(stored, "NamesAccepted"), condition_of(stored, "Established")
    assert accepted is not None
    assert established is not None
    assert (accepted["status"], accepted["reason"]) == ("False", reason)
    assert established["status"] == "False"
    assert server.kinds.find("example.com", "v1", other["spec"]["names"]["plural"]) is None


def test_schemas_are_compiled_once_for_each_spec() -> None:
    crd = definition()
    crd["status"] = crds.first_status(crd, NOW)
    touched = copy.deepcopy(crd)
    touched["metadata"]["resourceVersion"] = "5"
    assert crds.served(crd)[0] is crds.served(touched)[0]
