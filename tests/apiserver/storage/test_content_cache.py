"""Results cached for one spec apply to equal specs, and to no others."""

from itertools import product
from typing import Any

from tests.apiserver.admission.test_pods import admitted, pod
from volcano.apiserver.registry.strategies import BuiltInStrategy
from volcano.apiserver.storage.content_cache import LARGEST, ContentCache, IdentityCache
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Manifest
from volcano.kube.patches import apply


def complete(name: str, **spec: Any) -> Manifest:
    container = {"name": "c", "image": "i", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}
    base = {"containers": [container], "restartPolicy": "Never", "dnsPolicy": "ClusterFirst"}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "d"}}
    return {**manifest, "spec": {**base, **spec}}


def test_a_valid_spec_does_not_make_its_invalid_neighbour_valid() -> None:
    strategy = BuiltInStrategy(POD)
    assert strategy.validate(complete("a"), None, "") == []
    assert strategy.validate(complete("b"), None, "") == []
    causes = strategy.validate(complete("c", restartPolicy="Sometimes"), None, "")
    assert [cause.field for cause in causes] == ["spec.restartPolicy"]
    again = strategy.validate(complete("d", restartPolicy="Sometimes"), None, "")
    assert again == causes  # what was wrong is looked at, and told, each time


def test_the_name_is_judged_however_familiar_the_spec() -> None:
    strategy = BuiltInStrategy(POD)
    assert strategy.validate(complete("fine"), None, "") == []
    assert [cause.field for cause in strategy.validate(complete("Not_Fine"), None, "")] == ["metadata.name"]


def test_remembered_fields_are_those_that_would_be_found_anew() -> None:
    schema = apply.built_in("v1", "Pod")
    assert schema is not None
    remembered: IdentityCache[apply.FieldSetsByOutline] = IdentityCache()
    spec = complete("a", hostname="h")["spec"]
    metadata: list[Manifest] = [
        {},
        {"labels": {"a": "1"}},
        {"labels": {"b": "1"}},
        {"labels": {}},
        {"finalizers": ["f"]},
    ]
    for name, more in product("abc", metadata):
        without = {**complete(name, hostname="h"), "metadata": {"name": name, **more}}
        with_memory = {**without, "metadata": {"name": name, **more}, "spec": spec}
        apply.track_update(schema, None, with_memory, "me", "t", specs=remembered)
        apply.track_update(schema, None, without, "me", "t")
        assert with_memory == without


def test_only_the_last_are_remembered_and_nothing_huge() -> None:
    alike: ContentCache[int] = ContentCache(remembered=2)
    for number in range(3):
        alike.put(alike.key({"n": number}), number)
    assert [alike.get(alike.key({"n": number})) for number in range(3)] == [None, 1, 2]
    huge = alike.key("x" * LARGEST)
    alike.put(huge, 9)
    assert huge not in alike


def test_a_shared_part_is_known_by_being_the_same_not_by_being_equal() -> None:
    shared: IdentityCache[int] = IdentityCache(remembered=2)
    parts: list[Manifest] = [{"n": 1}, {"n": 1}, {"n": 1}]
    for number, part in enumerate(parts):
        shared.put(part, number)
    assert [shared.get(part) for part in parts] == [None, 1, 2]
    assert shared.get({"n": 1}) is None


async def test_pods_sent_alike_are_stored_alike() -> None:
    first, second = await admitted(pod()), await admitted(pod())
    assert first["spec"] == second["spec"]


async def test_a_token_volume_that_came_along_is_used_again() -> None:
    copied = (await admitted(pod()))["spec"]
    copied["containers"].append({"name": "late", "image": "i"})
    for field in ("priority", "preemptionPolicy"):
        del copied[field]
    spec = (await admitted({**pod(), "spec": copied}))["spec"]
    assert len(spec["volumes"]) == 1
    assert {m["name"] for c in spec["containers"] for m in c["volumeMounts"]} == {spec["volumes"][0]["name"]}
