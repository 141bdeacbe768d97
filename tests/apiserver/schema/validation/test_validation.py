"""Wrong manifests get the field path and the reason that a real server gives."""

import json
from typing import Any

import pytest

from tests.apiserver import truth
from tests.k8s.control_plane.cluster import RealCluster
from volcano.kube.errors import Cause

CASES = [*truth.wrong_creations(), *truth.wrong_updates()]


@pytest.fixture(scope="module")
def answers() -> dict[str, list[list[Any]]]:
    recorded: dict[str, list[list[Any]]] = json.loads(truth.ANSWERS.read_text())
    return recorded


def test_the_table_is_long_enough_and_every_case_is_wrong(answers: dict[str, list[list[Any]]]) -> None:
    assert len(CASES) > 300
    assert [case.name for case in CASES if not answers[case.name]] == []


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_a_wrong_manifest_is_refused_as_a_real_server_refuses_it(
    case: truth.Case, answers: dict[str, list[list[Any]]]
) -> None:
    ours = truth.our_verdict(case)
    assert _places(ours) == {(field, reason) for field, reason, _ in answers[case.name]}
    texts = {cause.message for cause in ours}
    assert {message for _, _, message in answers[case.name] if message is not None} <= texts


@pytest.mark.k8s
def test_the_recorded_answers_are_those_of_a_real_server(
    fresh_apiserver: RealCluster, answers: dict[str, list[list[Any]]]
) -> None:
    server = truth.RealServer(fresh_apiserver.url, fresh_apiserver.token)
    wrong = {
        case.name: found
        for case in CASES
        if (found := _places(server.verdict(case)))
        != {(field, reason) for field, reason, _ in answers[case.name]}
    }
    assert wrong == {}


def _places(causes: list[Cause]) -> set[tuple[str, str]]:
    return {(cause.field, cause.reason) for cause in causes}
