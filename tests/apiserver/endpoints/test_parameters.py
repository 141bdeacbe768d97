"""Query parameters and DeleteOptions as values."""

from typing import Any
from urllib.parse import parse_qs

import pytest

from volcano.apiserver.endpoints.parameters import delete_options, flag, options_of, patch_options, query_of
from volcano.base.http.messages import Request
from volcano.kube.api.errors import BadRequest, Invalid
from volcano.kube.client.protocol import Options, PatchType, Query


def request(query: str) -> Request:
    return Request("GET", "/", parse_qs(query, keep_blank_values=True))


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("", False),
        ("x=", True),
        ("x=1", True),
        ("x=true", True),
        ("x=0", False),
        ("x=False", False),
        ("x=no", True),
    ],
)
def test_a_flag_is_set_unless_it_says_no(query: str, value: bool) -> None:
    assert flag(request(query), "x") is value


def test_list_and_watch_parameters() -> None:
    query = (
        "labelSelector=a%3Db&fieldSelector=c%3Dd&limit=5&continue=t&resourceVersion=7&resourceVersionMatch=Exact"
        "&sendInitialEvents=true&allowWatchBookmarks=true&timeoutSeconds=9"
    )
    assert query_of(request(query), "ns", watch=True) == Query(
        "ns", "a=b", "c=d", 5, "t", "7", "Exact", True, True, 9
    )
    assert query_of(request(query), "ns", watch=False).send_initial_events is False


def test_numbers_must_be_numbers() -> None:
    with pytest.raises(BadRequest, match='parsing "ten": invalid syntax'):
        query_of(request("limit=ten"), "", watch=False)
    with pytest.raises(BadRequest, match="out of range"):
        query_of(request("limit=" + "9" * 30), "", watch=False)


def test_write_parameters() -> None:
    found = options_of(request("fieldManager=me&dryRun=All&fieldValidation=Strict"), "CreateOptions")
    assert found == Options(field_manager="me", dry_run=True, field_validation="Strict")


def test_fields_are_warned_about_and_the_program_is_the_manager_by_default() -> None:
    found = options_of(request(""), "CreateOptions", "kubectl/v1.36 (linux/amd64)")
    assert (found.field_validation, found.field_manager) == ("Warn", "kubectl")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("dryRun=Some", 'dryRun: Unsupported value: ["Some"]: supported values: "All"'),
        (
            "fieldValidation=Loose",
            'fieldValidation: Unsupported value: "Loose": supported values: "", "Ignore", "Strict", "Warn"',
        ),
        ("fieldManager=" + "x" * 200, "fieldManager: Too long: may not be more than 128 bytes"),
    ],
)
def test_wrong_write_parameters_are_named(query: str, message: str) -> None:
    with pytest.raises(Invalid) as rejected:
        options_of(request(query), "CreateOptions")
    assert rejected.value.message == f'CreateOptions.meta.k8s.io "" is invalid: {message}'


def test_apply_needs_a_manager_and_only_apply_may_force() -> None:
    assert patch_options(request("fieldManager=me&force=true"), PatchType.APPLY, "").force is True
    with pytest.raises(Invalid, match="fieldManager: Required value: is required for apply patch"):
        patch_options(request(""), PatchType.APPLY, "kubectl/v1")
    with pytest.raises(Invalid, match="force: Forbidden: may not be specified for non-apply patch"):
        patch_options(request("force=true"), PatchType.MERGE, "")


@pytest.mark.parametrize(
    ("query", "body", "expected"),
    [
        ("", None, Options()),
        (
            "gracePeriodSeconds=0&propagationPolicy=Foreground",
            None,
            Options(grace_seconds=0, propagation="Foreground"),
        ),
        ("orphanDependents=true", None, Options(propagation="Orphan")),
        ("orphanDependents=false", None, Options(propagation="Background")),
        (
            "gracePeriodSeconds=5",
            {
                "kind": "DeleteOptions",
                "gracePeriodSeconds": 7,
                "preconditions": {"uid": "u", "resourceVersion": "3"},
            },
            Options(grace_seconds=7, uid="u", resource_version="3"),
        ),
        ("", {"dryRun": ["All"], "propagationPolicy": "Orphan"}, Options(dry_run=True, propagation="Orphan")),
    ],
)
def test_delete_options_come_from_the_body_or_the_query(query: str, body: Any, expected: Options) -> None:
    assert delete_options(request(query), body) == expected


@pytest.mark.parametrize(
    "body",
    [
        {"propagationPolicy": "Sideways"},
        {"propagationPolicy": "Orphan", "orphanDependents": True},
        {"dryRun": ["Some"]},
        {"gracePeriodSeconds": "soon"},
        {"preconditions": 3},
        {"kind": "Pod"},
        ["no object"],
    ],
)
def test_invalid_delete_options_are_rejected(body: Any) -> None:
    with pytest.raises((Invalid, BadRequest)):
        delete_options(request(""), body)
