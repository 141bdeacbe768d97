"""Whatever the server remembers of pods before, the next one is answered as if it were the first."""

import asyncio
import copy
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.apiserver.registries import config_map, namespace, pod, registry, resource_plugins
from volcano.apiserver.admission.chain import chain
from volcano.apiserver.interfaces import Attributes, Served
from volcano.apiserver.registry.lookup import StoreLookup
from volcano.apiserver.registry.managed_fields import FieldManagers
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.registry.strategies import BuiltInStrategy
from volcano.apiserver.storage.content_cache import ContentCache
from volcano.apiserver.storage.store import Store
from volcano.base.clock import Instant
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import (
    CONFIG_MAP,
    LIMIT_RANGE,
    NAMESPACE,
    POD,
    PRIORITY_CLASS,
    SERVICE_ACCOUNT,
    Kind,
)
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.kube.client.protocol import Options, PatchType
from volcano.kube.informers.shared_informers import SharedDecodeCache

SERVED = Served(POD, POD, BuiltInStrategy(POD))


class Server:
    """The parts of a server that pods pass on their way to the store; they may remember what they have seen."""

    def __init__(self) -> None:
        self.strategy = BuiltInStrategy(POD)
        self.admit = chain(*resource_plugins())
        self.ownership = FieldManagers()

    async def treat(self, manifest: Manifest, lookup: StoreLookup, *, quickly: bool) -> Any:
        """What becomes of a new pod, or why nothing does."""
        strategy, now = self.strategy, Instant(0, 0)
        request = Attributes("create", POD, key_of(manifest), options=Options(field_manager="me"))
        try:
            try_reuse_spec = quickly and strategy.try_reuse_spec(manifest)
            unknown = [] if try_reuse_spec else strategy.unknown_fields(manifest)
            if not try_reuse_spec:
                strategy.prune(manifest)
                strategy.default(manifest)
            strategy.prepare_for_create(manifest, now)
            manifest = await self.admit(request, manifest, None, lookup) or {}
            strategy.default(manifest)
            causes = strategy.validate(manifest, None, "")
            if not causes:
                self.ownership.track(SERVED, request, manifest, None, now)
        except ApiError as refusal:
            return refusal.message
        return unknown, manifest, causes


class Place:
    """Objects that pods are held against, in a store of their own."""

    def __init__(self) -> None:
        self.store = Store()
        self.lookup = self.fresh_lookup()
        self.put(SERVICE_ACCOUNT, {"metadata": {"name": "default", "namespace": "default"}})

    def fresh_lookup(self) -> StoreLookup:
        return StoreLookup(self.store, registry(self.store).kinds)

    def put(self, kind: Kind, manifest: Manifest) -> None:
        record = self.store.get(kind.resource, key_of(manifest))
        self.store.put(kind.resource, {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}, record)


CONTAINERS = st.fixed_dictionaries(
    {"name": st.sampled_from(["main", "Bad Name"]), "image": st.sampled_from(["busybox", "busybox:1"])},
    optional={
        "imagePullPolicy": st.sampled_from(["Always", None, 3]),
        "resources": st.sampled_from([{}, {"limits": {"cpu": "1"}}, {"requests": {"cpu": "1000m"}}]),
        "misspelt": st.just("x"),
        "ports": st.sampled_from([[{"containerPort": 80}], [{"containerPort": 10**30}]]),
    },
)
PODS = st.builds(
    lambda metadata, spec: {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", **metadata},
        "spec": spec,
    },
    st.sampled_from(
        [
            {},
            {"labels": {}},
            {"labels": {"a": "b"}},
            {"labels": {"a": "c"}, "annotations": {"n": "m"}},
            {"labels": {"a": 1}},
            {"labels": {"a": "not fine"}, "annotations": {"not fine": ""}},
            {"annotations": {"kubernetes.io/config.mirror": "x"}},
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]},
            {"oddity": 1},
        ]
    ),
    st.fixed_dictionaries(
        {"containers": st.lists(CONTAINERS, min_size=1, max_size=1)},
        optional={
            "priorityClassName": st.sampled_from(["high", "absent"]),
            "restartPolicy": st.sampled_from(["Never", "Sometimes"]),
            "serviceAccountName": st.sampled_from(["default", "absent"]),
        },
    ),
)
CHANGES: list[tuple[Kind, Manifest]] = [
    (PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 100}),
    (PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 200, "preemptionPolicy": "Never"}),
    (PRIORITY_CLASS, {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True}),
    (LIMIT_RANGE, {"metadata": {"name": "l", "namespace": "default"},
                   "spec": {"limits": [{"type": "Container", "default": {"cpu": "2"}}]}}),
    (LIMIT_RANGE, {"metadata": {"name": "l", "namespace": "default"},
                   "spec": {"limits": [{"type": "Container", "max": {"cpu": "500m"}}]}}),
    (SERVICE_ACCOUNT, {"metadata": {"name": "default", "namespace": "default"},
                       "imagePullSecrets": [{"name": "s"}]}),
    (SERVICE_ACCOUNT, {"metadata": {"name": "default", "namespace": "default"},
                       "automountServiceAccountToken": False}),
]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(PODS, PODS, st.sampled_from(CHANGES)), max_size=12))
def test_a_pod_is_treated_as_if_no_other_had_come_before(steps: list[Any]) -> None:
    place, server = Place(), Server()
    made: list[tuple[Any, Any]] = []
    for step in steps:
        if isinstance(step, tuple):
            place.put(step[0], copy.deepcopy(step[1]))
            continue
        for _ in range(2):  # the second time all of it is known
            known = asyncio.run(server.treat(copy.deepcopy(step), place.lookup, quickly=True))
            anew = asyncio.run(Server().treat(copy.deepcopy(step), place.fresh_lookup(), quickly=False))
            assert known == anew
            made.append((known, copy.deepcopy(known)))
    for pod_now, pod_then in made:
        assert pod_now == pod_then  # those before share their specs, and were left alone


def test_pods_that_were_sent_alike_share_their_spec() -> None:
    place, server = Place(), Server()
    sent = {**pod("a"), "metadata": {"name": "a", "namespace": "default"}}
    specs = []
    for _ in range(2):
        _, manifest, _ = asyncio.run(server.treat(copy.deepcopy(sent), place.lookup, quickly=True))
        specs.append(manifest["spec"])
    assert specs[0] is specs[1]


def test_a_part_that_is_no_json_is_never_remembered() -> None:
    alike: ContentCache[int] = ContentCache()
    huge = alike.key({"n": 10**30})
    alike.put(huge, 1)
    assert huge not in alike


async def test_what_admission_looks_up_is_what_is_stored_now() -> None:
    place = Place()
    key = Key("", "high")
    place.put(PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1})
    assert [(place.lookup.find(PRIORITY_CLASS, key) or {})["value"] for _ in range(2)] == [1, 1]
    place.put(PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 2})
    assert (place.lookup.find(PRIORITY_CLASS, key) or {})["value"] == 2
    record = place.store.get(PRIORITY_CLASS.resource, key)
    assert record is not None
    place.store.remove(PRIORITY_CLASS.resource, orjson.loads(record.data), record)
    assert place.lookup.find(PRIORITY_CLASS, key) is None


@pytest.fixture
async def shared() -> tuple[Registry, dict[bytes, Manifest]]:
    """A registry, and every object it has shared as it was written."""
    seen: dict[bytes, Manifest] = {}
    decode = SharedDecodeCache()

    def on_write(data: bytes, manifest: Manifest) -> None:
        decode.remember(data, manifest)
        seen[data] = decode(data)

    made = registry(Store(on_write=on_write))
    await made.create(Attributes("create", NAMESPACE, Key("", "default")), namespace("default"))
    return made, seen


async def test_objects_shared_as_they_are_written_are_what_their_json_says(
    shared: tuple[Registry, dict[bytes, Manifest]],
) -> None:
    made, seen = shared
    key = Key("default", "web")
    mine = Options(field_manager="me")
    await made.create(Attributes("create", POD, key, options=mine), pod())
    binding = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n"}}
    await made.create(Attributes("create", POD, key, subresource="binding"), binding)
    merge = Options(patch_type=PatchType.MERGE)
    label = {"metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/f"]}}
    await made.patch(Attributes("patch", POD, key, options=merge), label)
    status = {"status": {"phase": "Running"}}
    await made.patch(Attributes("patch", POD, key, subresource="status", options=merge), status)
    await made.create(Attributes("create", CONFIG_MAP, Key("default", "settings")), config_map(a="b"))
    await made.delete(Attributes("delete", POD, key))
    assert len(seen) >= 6
    for data, manifest in seen.items():
        said = orjson.loads(data)
        said["metadata"].pop("managedFields", None)
        assert manifest == said
        assert orjson.dumps(manifest) == orjson.dumps(said)


def test_all_of_a_kind_are_those_that_are_stored_now_however_often_they_are_asked_for() -> None:
    place = Place()
    for value in (1, 2):
        place.put(PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": value})
        assert [[each["value"] for each in place.lookup.all(PRIORITY_CLASS)] for _ in range(2)] == [
            [value]
        ] * 2
    place.put(PRIORITY_CLASS, {"metadata": {"name": "low"}, "value": 0})
    assert [each["value"] for each in place.lookup.all(PRIORITY_CLASS)] == [2, 0]
    record = place.store.get(PRIORITY_CLASS.resource, Key("", "high"))
    assert record is not None
    place.store.remove(PRIORITY_CLASS.resource, orjson.loads(record.data), record)
    assert place.lookup.all(PRIORITY_CLASS) == place.fresh_lookup().all(PRIORITY_CLASS)
    assert [each["value"] for each in place.lookup.all(PRIORITY_CLASS)] == [0]
