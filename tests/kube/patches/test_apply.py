"""Server-side apply merges, owns, prunes and conflicts as a real server does."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volcano.kube.api import protobuf, type_info
from volcano.kube.api.errors import ApiError, BadRequest, Conflict
from volcano.kube.patches import apply
from volcano.kube.patches.fieldset import paths
from volcano.kube.patches.merge_types import Schema, built_in, custom

NOW = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:00:09Z"


def schema_of(api_version: str, kind: str) -> Schema:
    found = built_in(api_version, kind)
    assert found is not None
    return found


DEPLOYMENT = schema_of("apps/v1", "Deployment")
CONFIG_MAP = schema_of("v1", "ConfigMap")
WIDGET = custom(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "parts": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "properties": {"name": {"type": "string"}, "color": {"type": "string"}},
                        },
                    },
                    "steps": {"type": "array", "items": {"type": "string"}},
                    "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "options": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            },
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    },
    status=True,
)


def widget(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


def config_map(**data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "d"},
        "data": data,
    }


def applied(schema: Schema, live: Any, manifest: Any, manager: str, *, force: bool = False) -> dict[str, Any]:
    before = copy.deepcopy((live, manifest))
    result = apply.apply_patch(schema, live, manifest, manager, force, NOW)
    assert (live, manifest) == before, "nothing given may be changed"
    return result


def owned(manifest: dict[str, Any], manager: str, operation: str = "Apply") -> Any:
    for entry in manifest["metadata"].get("managedFields", ()):
        if (entry["manager"], entry["operation"]) == (manager, operation):
            return entry["fieldsV1"]
    return None


RECORDED = [
    json.loads(line) for line in (Path(__file__).parents[1] / "data/apply.jsonl").read_text().splitlines()
]


def typed(type_: type_info.Type, manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest as a typed server shows it, with empty structs and without empty lists."""
    managed = manifest["metadata"].get("managedFields")
    bare = {**manifest, "metadata": {k: v for k, v in manifest["metadata"].items() if k != "managedFields"}}
    result = protobuf.decode(protobuf.encode(type_, bare))
    result["metadata"]["uid"] = "u"
    return {**result, "metadata": {**result["metadata"], "managedFields": managed}} if managed else result


def comparable(value: Any) -> Any:
    """Without nulls, and annotations that hold JSON by what they hold."""
    if isinstance(value, dict):
        return {
            key: json.loads(each) if key == apply.LAST_APPLIED and isinstance(each, str) else comparable(each)
            for key, each in value.items()
            if each is not None
        }
    return [comparable(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["kind"])
def test_a_recorded_history_is_repeated_exactly(recorded: Any) -> None:
    schema = schema_of(recorded["apiVersion"], recorded["kind"])
    type_ = type_info.type_named(recorded["apiVersion"], recorded["kind"])
    assert type_ is not None
    live: dict[str, Any] | None = None
    for step in recorded["steps"]:
        request, answer = step["request"], step["answer"]
        if "error" in answer:
            with pytest.raises(ApiError) as refusal:
                applied(schema, live, request["Object"], request["Manager"], force=request["Force"])
            assert sorted(str(refusal.value).splitlines()) == sorted(answer["error"].splitlines())
            continue
        if request["Op"] == "apply":
            result = applied(schema, live, request["Object"], request["Manager"], force=request["Force"])
        else:
            result = typed(type_, request["Object"])
            apply.track_update(schema, live, result, request["Manager"], NOW)
        live = typed(type_, result)
        assert comparable(live) == comparable(answer)


def test_a_new_object_belongs_to_its_applier() -> None:
    live = applied(CONFIG_MAP, None, config_map(a="1"), "me")
    assert live["data"] == {"a": "1"}
    assert live["metadata"]["managedFields"] == [
        {
            "manager": "me",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}}},
        }
    ]


def test_a_field_that_is_no_longer_applied_goes() -> None:
    live = applied(CONFIG_MAP, None, config_map(a="1", b="2"), "me")
    assert applied(CONFIG_MAP, live, config_map(a="1"), "me")["data"] == {"a": "1"}


def test_a_field_with_another_owner_stays() -> None:
    live = applied(CONFIG_MAP, None, config_map(a="1", b="2"), "me")
    live = applied(CONFIG_MAP, live, config_map(b="2"), "you")
    assert applied(CONFIG_MAP, live, config_map(a="1"), "me")["data"] == {"a": "1", "b": "2"}


def test_changing_a_field_of_another_owner_is_a_conflict() -> None:
    live = applied(CONFIG_MAP, None, config_map(a="1", b="2"), "you")
    with pytest.raises(Conflict) as refusal:
        applied(CONFIG_MAP, live, config_map(a="9", b="2"), "me")
    assert str(refusal.value) == 'Apply failed with 1 conflict: conflict with "you": .data.a'
    assert refusal.value.status()["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "you"', "field": ".data.a"}
    ]


def test_several_conflicts_are_listed_by_manager() -> None:
    live = config_map(a="1", b="2", c="3")
    apply.track_update(CONFIG_MAP, None, live, "editor", NOW)
    live = applied(CONFIG_MAP, live, config_map(c="3"), "you")
    with pytest.raises(Conflict) as refusal:
        applied(CONFIG_MAP, live, config_map(a="9", c="9"), "me")
    assert str(refusal.value) == (
        'Apply failed with 3 conflicts: conflicts with "editor" using v1:\n- .data.a\n- .data.c\n'
        'conflicts with "you":\n- .data.c'
    )


def test_force_takes_the_fields_over() -> None:
    live = applied(CONFIG_MAP, None, config_map(a="1", b="2"), "you")
    live = applied(CONFIG_MAP, live, config_map(a="9"), "me", force=True)
    assert live["data"] == {"a": "9", "b": "2"}
    assert owned(live, "me") == {"f:data": {"f:a": {}}}
    assert owned(live, "you") == {"f:data": {"f:b": {}}}


def test_the_same_value_is_shared_without_a_conflict() -> None:
    live = applied(CONFIG_MAP, None, config_map(a="1"), "you")
    live = applied(CONFIG_MAP, live, config_map(a="1"), "me")
    assert owned(live, "me") == owned(live, "you") == {"f:data": {"f:a": {}}}


def test_untracked_objects_belong_to_before_first_apply() -> None:
    live = config_map(a="1", b="2") | {}
    live["metadata"]["uid"] = "u"
    with pytest.raises(Conflict, match=r'conflict with "before-first-apply" using v1: \.data\.a'):
        applied(CONFIG_MAP, live, config_map(a="9"), "me")


def test_an_updater_takes_what_it_changes_and_nothing_else() -> None:
    live = applied(CONFIG_MAP, None, config_map(a="1", b="2"), "me")
    new = copy.deepcopy(live)
    new["data"]["a"] = "9"
    apply.track_update(CONFIG_MAP, live, new, "editor", LATER)
    assert owned(new, "editor", "Update") == {"f:data": {"f:a": {}}}
    assert owned(new, "me") == {"f:data": {"f:b": {}}}
    assert [entry["time"] for entry in new["metadata"]["managedFields"]] == [NOW, LATER]


def test_a_write_that_changes_nothing_changes_no_ownership() -> None:
    live = applied(CONFIG_MAP, None, config_map(a="1"), "me")
    new = copy.deepcopy(live)
    apply.track_update(CONFIG_MAP, live, new, "editor", LATER)
    assert new == live


def test_an_empty_list_resets_ownership() -> None:
    live = applied(CONFIG_MAP, None, config_map(a="1"), "me")
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"] = []
    apply.track_update(CONFIG_MAP, live, new, "editor", LATER)
    assert "managedFields" not in new["metadata"]


def test_forgetting_managed_fields_in_an_update_does_not_lose_them() -> None:
    live = applied(CONFIG_MAP, None, config_map(a="1"), "me")
    new = copy.deepcopy(live)
    del new["metadata"]["managedFields"]
    apply.track_update(CONFIG_MAP, live, new, "editor", LATER)
    assert owned(new, "me") == {"f:data": {"f:a": {}}}


@pytest.mark.parametrize(
    "fields", [{"f:data": 1}, {"data": {}}, [], "x", {"k:{": {}}, {"f:data": {"f:a": {"f:b": []}}}]
)
def test_malformed_ownership_in_an_update_is_passed_over(fields: Any) -> None:
    live = applied(CONFIG_MAP, None, config_map(a="1"), "me")
    new = copy.deepcopy(live)
    new["metadata"]["managedFields"][0]["fieldsV1"] = fields
    apply.track_update(CONFIG_MAP, live, new, "editor", LATER)
    assert owned(new, "me") == {"f:data": {"f:a": {}}}


def test_an_element_without_its_key_stops_applies_but_no_other_write() -> None:
    live = widget(parts=[{"color": "red"}])
    apply.track_update(WIDGET, None, live, "creator", NOW)
    assert "managedFields" not in live["metadata"]
    with pytest.raises(BadRequest, match='omits key field "name"'):
        applied(WIDGET, live, widget(size=1), "me")


def test_status_is_owned_only_through_its_subresource() -> None:
    new = widget(size=1) | {"status": {"phase": "Ready"}}
    apply.track_update(WIDGET, None, new, "creator", NOW)
    assert "f:status" not in owned(new, "creator", "Update")
    ready = copy.deepcopy(new)
    ready["status"]["phase"] = "Done"
    apply.track_update(WIDGET, new, ready, "controller", NOW, "status")
    entry = ready["metadata"]["managedFields"][0]
    assert (entry["subresource"], entry["fieldsV1"]) == ("status", {"f:status": {"f:phase": {}}})


def test_the_oldest_of_many_updaters_are_merged() -> None:
    live = config_map(k0="x")
    apply.track_update(CONFIG_MAP, None, live, "m0", NOW)
    for number in range(1, 14):
        new = copy.deepcopy(live)
        new["data"][f"k{number}"] = "x"
        apply.track_update(CONFIG_MAP, live, new, f"m{number}", f"2026-01-01T00:00:{number:02}Z")
        live = new
    entries = live["metadata"]["managedFields"]
    assert len(entries) == 10
    ancient = owned(live, "ancient-changes", "Update")["f:data"]
    assert {"f:k0", "f:k1"} <= ancient.keys()


def test_crd_lists_follow_their_schema() -> None:
    live = applied(
        WIDGET,
        None,
        widget(tags=["a"], parts=[{"name": "p", "color": "red"}], steps=["x"], extra={"n": {"m": 1}}),
        "me",
    )
    assert owned(live, "me") == {
        "f:spec": {
            "f:tags": {'v:"a"': {}},
            "f:parts": {'k:{"name":"p"}': {".": {}, "f:name": {}, "f:color": {}}},
            "f:steps": {},
            "f:extra": {"f:n": {".": {}, "f:m": {}}},
        }
    }
    live = applied(WIDGET, live, widget(tags=["b"], parts=[{"name": "q"}]), "you")
    assert live["spec"]["tags"] == ["a", "b"]
    assert [part["name"] for part in live["spec"]["parts"]] == ["p", "q"]
    live = applied(WIDGET, live, widget(size=1), "me")
    assert live["spec"] == {"tags": ["b"], "parts": [{"name": "q"}], "size": 1}


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        (widget(nonsense=1), r".spec.nonsense: field not declared in schema"),
        (widget(parts=[{"name": "a", "x": 1}]), r'.spec.parts\[name="a"\].x: field not declared in schema'),
        (
            widget(parts=[{"name": "a"}, {"name": "a"}]),
            r'.spec.parts: duplicate entries for key \[name="a"\]',
        ),
        (widget(parts=[{"color": "red"}]), 'omits key field "name"'),
        ({**widget(), "metadata": {"name": "w", "managedFields": []}}, "managedFields must be nil"),
    ],
)
def test_configurations_that_do_not_fit_are_refused(manifest: Any, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        applied(WIDGET, None, manifest, "me")


def test_another_version_is_refused() -> None:
    with pytest.raises(BadRequest, match="Specified patch version: v1, expected: v2"):
        apply.apply_patch(CONFIG_MAP, None, config_map(), "me", False, NOW, api_version="v2")


def test_moving_from_client_side_to_server_side_apply_is_no_conflict() -> None:
    first = config_map(a="1", b="2")
    live = copy.deepcopy(first)
    live["metadata"]["annotations"] = {apply.LAST_APPLIED: json.dumps(first)}
    apply.track_update(CONFIG_MAP, None, live, "kubectl-client-side-apply", NOW)
    moved = applied(CONFIG_MAP, live, config_map(a="9", b="2"), "kubectl")
    assert moved["data"] == {"a": "9", "b": "2"}
    assert json.loads(moved["metadata"]["annotations"][apply.LAST_APPLIED])["data"] == {"a": "9", "b": "2"}
    with pytest.raises(Conflict):
        applied(CONFIG_MAP, live, config_map(a="9"), "another")


@pytest.mark.parametrize(
    ("field_manager", "user_agent", "name"),
    [("me", "x/1", "me"), ("", "kubectl/v1.36 (linux)", "kubectl"), ("", "", "unknown")],
)
def test_writers_are_known_by_their_manager_or_user_agent(
    field_manager: str, user_agent: str, name: str
) -> None:
    assert apply.manager_name(field_manager, user_agent) == name


NAMES = st.sampled_from(["a", "b", "c"])
# An empty list or map has no fields to own, so it is removed, as on a real server.
PARTS = st.lists(NAMES, unique=True, min_size=1, max_size=3).flatmap(
    lambda names: st.tuples(
        *(st.fixed_dictionaries({"name": st.just(name)}, optional={"color": NAMES}) for name in names)
    ).map(list)
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 2),
        "tags": st.lists(NAMES, unique=True, min_size=1, max_size=3),
        "parts": PARTS,
        "steps": st.lists(NAMES, max_size=2),
        "options": st.dictionaries(NAMES, NAMES, min_size=1, max_size=2),
        "extra": st.dictionaries(
            NAMES, st.dictionaries(NAMES, NAMES, min_size=1, max_size=2), min_size=1, max_size=2
        ),
    },
)


def holds(value: Any, wanted: Any) -> bool:
    """Whether everything that was applied is there."""
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(
            key in value and holds(value[key], each) for key, each in wanted.items()
        )
    if isinstance(wanted, list) and wanted and isinstance(wanted[0], dict):
        by_name = {each["name"]: each for each in value}
        return all(each["name"] in by_name and holds(by_name[each["name"]], each) for each in wanted)
    return bool(value == wanted) or (isinstance(wanted, list) and set(wanted) <= set(value))


@settings(max_examples=100, deadline=None)
@given(SPECS, SPECS, SPECS)
def test_applying_wins_and_applying_again_changes_nothing(first: Any, second: Any, third: Any) -> None:
    live = applied(WIDGET, None, widget(**first), "you")
    live = applied(WIDGET, live, widget(**second), "me", force=True)
    live = applied(WIDGET, live, widget(**third), "me", force=True)
    assert holds(live.get("spec", {}), third)
    assert applied(WIDGET, live, widget(**third), "me") == live


@settings(max_examples=100, deadline=None)
@given(SPECS, SPECS)
def test_what_only_one_applied_goes_when_it_applies_nothing(first: Any, second: Any) -> None:
    yours = applied(WIDGET, None, widget(**first), "you")
    live = applied(WIDGET, yours, widget(**second), "me", force=True)
    empty = applied(WIDGET, live, {k: v for k, v in widget().items() if k != "spec"}, "me", force=True)
    assert owned(empty, "me") is None
    mine = owned(live, "me") or {}
    still = owned(empty, "you") or {}
    for path in set(paths(mine)) - set(paths(owned(live, "you") or {})):
        assert path not in set(paths(still))
