"""Names that objects of a kind may have; `tests/k8s/test_object_names.py` compares them with a real server."""

import pytest

from tests.apiserver.conformance import kind_of, minimal_manifests, prepared
from volcano.apiserver.registry.strategies import strategy_for
from volcano.kube.api import kinds
from volcano.kube.api.kinds import Kind


def name_errors(kind: Kind, name: str) -> list[str]:
    manifest = next(each for each in minimal_manifests() if kind_of(each) == kind)
    manifest["metadata"] = {**manifest["metadata"], "name": name}
    causes = strategy_for(kind).validate(prepared(manifest), None, "")
    return [cause.message for cause in causes if cause.field == "metadata.name"]


@pytest.mark.parametrize("kind", [kinds.EVENT, kinds.POD_DISRUPTION_BUDGET, kinds.ROLE])
def test_some_kinds_accept_every_name_that_fits_into_a_path(kind: Kind) -> None:
    assert name_errors(kind, "Operator.143_x:y") == []
    assert name_errors(kind, "a/b") != []


@pytest.mark.parametrize("kind", [kinds.EVENTS_EVENT, kinds.CONFIG_MAP])
def test_most_kinds_accept_lower_case_domain_names_only(kind: Kind) -> None:
    assert name_errors(kind, "dotted.name") == []
    assert name_errors(kind, "Operator.143") != []


def test_pods_of_a_stateful_set_have_host_names_without_dots() -> None:
    assert any("must not contain dots" in message for message in name_errors(kinds.STATEFUL_SET, "a.b"))


def test_pods_of_an_indexed_job_have_host_names() -> None:
    manifest = next(each for each in minimal_manifests() if kind_of(each) == kinds.BATCH_JOB)
    manifest["metadata"]["name"] = "dotted.name"
    manifest["spec"] |= {"completionMode": "Indexed", "completions": 11}
    causes = strategy_for(kinds.BATCH_JOB).validate(prepared(manifest), None, "")
    messages = [cause.message for cause in causes if cause.field == "metadata.name"]
    assert [message.rpartition(": ")[2] for message in messages] == ["dotted.name-10"]
    manifest["spec"]["completionMode"] = "NonIndexed"
    assert strategy_for(kinds.BATCH_JOB).validate(prepared(manifest), None, "") == []
