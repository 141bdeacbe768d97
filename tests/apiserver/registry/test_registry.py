"""The verbs: what the registry does between a request and the store, beyond what every client is promised."""

import asyncio
from dataclasses import replace

import orjson
import pytest

from tests.apiserver.registries import config_map, namespace, pod, registry
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.interfaces import Attributes, Lookup
from volcano.apiserver.registry.registry import Registry
from volcano.kube.api import kinds
from volcano.kube.api.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    UnsupportedMediaType,
)
from volcano.kube.api.kinds import CONFIG_MAP, CRD, DEPLOYMENT, NAMESPACE, POD, Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Options, PatchType, Query

SETTINGS = Key("default", "settings")
WIDGET = Kind("example.com", "v1", "Widget", "widgets")
NEW_WIDGET = replace(WIDGET, version="v2")


async def ready(made: Registry) -> DirectClient:
    client = DirectClient(made)
    await client.create(NAMESPACE, namespace("default"))
    return client


def widgets(**subresources: object) -> Manifest:
    """A CRD with two versions of one schema."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"size": {"type": "integer"}, "colour": {"type": "string"}},
            },
            "status": {
                "type": "object",
                "properties": {"size": {"type": "integer"}, "sel": {"type": "string"}},
            },
        },
    }
    version = {
        "served": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": subresources,
        "selectableFields": [{"jsonPath": ".spec.colour"}],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [
                {"name": "v1", "storage": True, **version},
                {"name": "v2", "storage": False, **version},
            ],
        },
    }


async def with_widgets(made: Registry, **subresources: object) -> DirectClient:
    client = await ready(made)
    await client.create(CRD, widgets(**subresources))
    await client.patch(
        CRD,
        Key("", "widgets.example.com"),
        {"status": {"conditions": [{"type": "Established", "status": "True", "reason": "x", "message": ""}]}},
        subresource="status",
    )
    return client


def widget(name: str = "w", version: str = "v1", **spec: object) -> Manifest:
    return {
        "apiVersion": f"example.com/{version}",
        "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


# Admission


async def deny_pods(
    request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
) -> Manifest | None:
    if request.kind == POD:
        raise Forbidden(f"no pods ({request.operation}) in {request.key.namespace}")
    return new


async def test_admission_may_refuse() -> None:
    made = registry(admit=deny_pods)
    client = await ready(made)
    with pytest.raises(Forbidden, match=r"no pods \(CREATE\) in default"):
        await client.create(POD, pod())
    assert (await client.list(POD)).items == []


async def test_admission_may_change_and_the_change_is_validated_and_counted() -> None:
    async def admit(
        request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        if request.kind == DEPLOYMENT and new is not None:
            new["spec"]["replicas"] = 7 if old is None else -1
        return new

    made = registry(admit=admit)
    client = await ready(made)
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    deployment = {
        "metadata": {"name": "d", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    created = await client.create(DEPLOYMENT, deployment)
    assert created["spec"]["replicas"] == 7
    with pytest.raises(Invalid, match=r"spec\.replicas: Invalid value: -1"):
        await client.patch(DEPLOYMENT, Key("default", "d"), {"metadata": {"labels": {"c": "d"}}})


async def test_a_write_that_waited_for_admission_is_tried_again_on_what_is_there_then() -> None:
    gate = asyncio.Event()
    waited: list[str] = []

    async def admit(
        request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        if request.user.name == "slow":
            waited.append(request.verb)
            await gate.wait()
        return new

    made = registry(admit=admit)
    fast = await ready(made)
    slow = DirectClient(made, replace(fast._user, name="slow"))
    created = await fast.create(CONFIG_MAP, config_map())
    patching = asyncio.create_task(slow.patch(CONFIG_MAP, SETTINGS, {"data": {"slow": "1"}}))
    updating = asyncio.create_task(slow.update(CONFIG_MAP, {**created, "data": {"late": "1"}}))
    creating = asyncio.create_task(slow.create(CONFIG_MAP, config_map("other")))
    await asyncio.sleep(0)
    await fast.patch(CONFIG_MAP, SETTINGS, {"data": {"fast": "1"}})
    await fast.create(CONFIG_MAP, config_map("other"))
    gate.set()
    assert (await patching)["data"] == {"fast": "1", "slow": "1"}
    with pytest.raises(Conflict, match="the object has been modified"):
        await updating
    with pytest.raises(AlreadyExists):
        await creating
    assert waited.count("patch") == 2


async def test_admission_sees_who_asks_and_can_look_around() -> None:
    seen: list[tuple[str, str, int]] = []

    async def admit(
        request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        found = lookup.find(NAMESPACE, Key("", "default"))
        seen.append((request.user.name, request.operation, len(lookup.all(CONFIG_MAP, "default"))))
        if found is not None:
            found["metadata"]["name"] = "changed"  # its own copy
        return new

    made = registry(admit=admit)
    client = await ready(made)
    await client.create(CONFIG_MAP, config_map())
    await client.delete(CONFIG_MAP, SETTINGS)
    assert seen[1:] == [("system:volcano", "CREATE", 0), ("system:volcano", "DELETE", 1)]
    assert await client.get(NAMESPACE, Key("", "default"))


# Strictness


async def test_unknown_fields_are_refused_warned_of_or_dropped() -> None:
    made = registry()
    await ready(made)
    request = Attributes("create", POD, Key("default", ""))
    unknown = {**pod(), "spec": {**pod()["spec"], "colour": "blue"}}
    with pytest.raises(BadRequest, match=r'unknown field "spec\.colour"'):
        await made.create(
            replace(request, options=Options(field_validation="Strict")), orjson.loads(orjson.dumps(unknown))
        )
    reply = await made.create(replace(request, options=Options(field_validation="Warn")), unknown)
    assert reply.warnings == ('unknown field "spec.colour"',)
    assert "colour" not in reply.manifest()["spec"]
    assert reply.created


@pytest.mark.parametrize(
    ("manifest", "text"),
    [
        ([], "not a JSON object"),
        ({"metadata": []}, "metadata must be a JSON object"),
        ({"metadata": {"name": 5}}, "metadata.name must be a string"),
        (
            {"metadata": {"name": "x", "namespace": "other"}},
            "does not match the namespace sent on the request",
        ),
        ({"apiVersion": "v2", "metadata": {"name": "x"}}, "does not match the expected API version"),
        ({"kind": "Pod", "metadata": {"name": "x"}}, "does not match the expected kind"),
        ({"metadata": {"name": "x", "resourceVersion": "5"}}, "resourceVersion should not be set"),
    ],
)
async def test_what_is_no_object_of_the_kind_is_refused(manifest: Manifest, text: str) -> None:
    made = registry()
    await ready(made)
    with pytest.raises(BadRequest, match=text):
        await made.create(Attributes("create", CONFIG_MAP, Key("default", "")), manifest)


async def test_a_kind_that_is_not_served_is_not_found() -> None:
    client = await ready(registry())
    with pytest.raises(NotFound, match="the server could not find the requested resource"):
        await client.create(WIDGET, widget())
    with pytest.raises(NotFound, match="the server could not find the requested resource"):
        await client.get(CONFIG_MAP, SETTINGS, subresource="status")


@pytest.mark.parametrize(
    ("patch", "options", "error"),
    [
        ({"a": 1}, Options(patch_type=PatchType.JSON), BadRequest),
        ([{"op": "add"}], Options(patch_type=PatchType.MERGE), BadRequest),
        ([{"op": "fly", "path": "/data"}], Options(patch_type=PatchType.JSON), Invalid),
        ({}, Options(patch_type=PatchType.APPLY), BadRequest),
        ({}, Options(force=True), BadRequest),
        ({"metadata": {"name": "other"}}, Options(), BadRequest),
    ],
)
async def test_patches_that_make_no_sense_are_refused(
    patch: object, options: Options, error: type[Exception]
) -> None:
    client = await ready(registry())
    await client.create(CONFIG_MAP, config_map())
    with pytest.raises(error) as refused:
        await client.patch(CONFIG_MAP, SETTINGS, patch, options=options)
    assert isinstance(refused.value, ApiError)
    assert refused.value.code < 500


# Custom resources


async def test_a_custom_kind_is_served_in_every_version_it_has() -> None:
    client = await with_widgets(registry())
    created = await client.create(NEW_WIDGET, widget(version="v2", size=3))
    assert created["apiVersion"] == "example.com/v2"
    old = await client.get(WIDGET, Key("default", "w"))
    assert (old["apiVersion"], old["spec"]) == ("example.com/v1", {"size": 3})
    listing = await client.list(NEW_WIDGET)
    assert [item["apiVersion"] for item in listing.items] == ["example.com/v2"]
    feed = client._registry.open_watcher(NEW_WIDGET, Query())
    await client.patch(WIDGET, Key("default", "w"), {"spec": {"size": 4}})
    objects = [orjson.loads(piece.data) for piece in feed.take()]
    assert [(item["apiVersion"], item["spec"]["size"]) for item in objects] == [
        ("example.com/v2", 3),
        ("example.com/v2", 4),
    ]


async def test_custom_objects_are_selected_by_the_fields_their_crd_names() -> None:
    client = await with_widgets(registry())
    await client.create(WIDGET, widget("a", colour="red"))
    await client.create(WIDGET, widget("b", colour="blue"))
    listing = await client.list(WIDGET, Query(fields="spec.colour=blue"))
    assert [item["metadata"]["name"] for item in listing.items] == ["b"]
    with pytest.raises(BadRequest, match=r"field label not supported: spec\.size"):
        await client.list(WIDGET, Query(fields="spec.size=1"))


async def test_a_custom_object_takes_no_strategic_patch_and_no_update_without_a_version() -> None:
    client = await with_widgets(registry())
    created = await client.create(WIDGET, widget())
    with pytest.raises(UnsupportedMediaType):
        await client.patch(WIDGET, Key("default", "w"), {}, options=Options(patch_type=PatchType.STRATEGIC))
    with pytest.raises(Invalid, match=r"metadata\.resourceVersion: Invalid value: 0x0: must be specified"):
        await client.update(WIDGET, widget(size=1))
    created["spec"] = {"size": 1}
    assert (await client.update(WIDGET, created))["metadata"]["generation"] == 2


async def test_a_custom_object_is_scaled_where_its_crd_says() -> None:
    paths = {
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.sel",
    }
    client = await with_widgets(registry(), scale=paths, status={})
    await client.create(WIDGET, widget(size=2))
    await client.patch(
        WIDGET, Key("default", "w"), {"status": {"size": 1, "sel": "a=b"}}, subresource="status"
    )
    scale = await client.get(WIDGET, Key("default", "w"), subresource="scale")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "a=b"})
    await client.patch(WIDGET, Key("default", "w"), {"spec": {"replicas": 9}}, subresource="scale")
    assert (await client.get(WIDGET, Key("default", "w")))["spec"]["size"] == 9


# The rest


async def test_a_collection_is_deleted_as_selected() -> None:
    made = registry()
    client = await ready(made)
    for name, tier in (("a", "front"), ("b", "back"), ("c", "front")):
        manifest = config_map(name)
        manifest["metadata"]["labels"] = {"tier": tier}
        await client.create(CONFIG_MAP, manifest)
    request = Attributes("deletecollection", CONFIG_MAP, Key("default", ""))
    page = await made.delete_collection(request, Query(namespace="default", labels="tier=front"))
    assert len(page.items) == 2
    assert [item["metadata"]["name"] for item in (await client.list(CONFIG_MAP)).items] == ["b"]


async def test_generated_names_avoid_those_that_are_taken() -> None:
    made = registry()
    client = await ready(made)
    manifest = config_map()
    manifest["metadata"] = {"generateName": "x-", "namespace": "default"}
    first = await client.create(CONFIG_MAP, manifest)
    made._random.seed(1)
    again = registry(made.store)  # the same seed: the first name it thinks of is taken
    second = await DirectClient(again).create(CONFIG_MAP, manifest)
    assert first["metadata"]["name"] != second["metadata"]["name"]


async def test_writes_are_tracked_from_the_first_that_says_who_writes() -> None:
    client = await ready(registry())
    await client.create(CONFIG_MAP, config_map("silent"))
    assert "managedFields" not in (await client.get(CONFIG_MAP, Key("default", "silent")))["metadata"]
    await client.create(CONFIG_MAP, config_map(a="1"), options=Options(field_manager="maker"))
    changed = await client.patch(
        CONFIG_MAP, SETTINGS, {"data": {"b": "2"}}, options=Options(field_manager="changer")
    )
    managers = {entry["manager"]: entry["fieldsV1"] for entry in changed["metadata"]["managedFields"]}
    assert managers["changer"] == {"f:data": {"f:b": {}}}
    assert "f:a" in managers["maker"]["f:data"]


async def test_kinds_are_told_apart_by_group() -> None:
    client = await ready(registry())
    assert (await client.list(kinds.BATCH_JOB)).items == []
    with pytest.raises(NotFound):
        await client.list(kinds.JOB)
