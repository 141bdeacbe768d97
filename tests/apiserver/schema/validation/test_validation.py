"""Invalid manifests get the field paths and reasons of a real server."""

import json
from typing import Any

import pytest

from tests.apiserver import conformance
from tests.k8s.control_plane.cluster import RealCluster
from volcano.kube.api.errors import Cause

CASES = [*conformance.invalid_creates(), *conformance.invalid_updates()]


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[list[Any]]]:
    errors: dict[str, list[list[Any]]] = json.loads(conformance.VALIDATION_ERRORS.read_text())
    return errors


def test_the_table_is_long_enough_and_every_case_is_invalid(recorded: dict[str, list[list[Any]]]) -> None:
    assert len(CASES) > 300
    assert [case.name for case in CASES if not recorded[case.name]] == []


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_an_invalid_manifest_gets_the_errors_of_a_real_server(
    case: conformance.Case, recorded: dict[str, list[list[Any]]]
) -> None:
    ours = conformance.our_causes(case)
    assert _fields_and_reasons(ours) == {(field, reason) for field, reason, _ in recorded[case.name]}
    texts = {cause.message for cause in ours}
    assert {message for _, _, message in recorded[case.name] if message is not None} <= texts


@pytest.mark.k8s
def test_the_recorded_errors_are_those_of_a_real_server(
    fresh_apiserver: RealCluster, recorded: dict[str, list[list[Any]]]
) -> None:
    server = conformance.RealServer(fresh_apiserver.url, fresh_apiserver.token)
    wrong = {
        case.name: found
        for case in CASES
        if (found := _fields_and_reasons(server.causes(case)))
        != {(field, reason) for field, reason, _ in recorded[case.name]}
    }
    assert wrong == {}


def _fields_and_reasons(causes: list[Cause]) -> set[tuple[str, str]]:
    return {(cause.field, cause.reason) for cause in causes}
