"""Annotations about notifications are checked when jobs are created and when the annotations change."""

import copy

import pytest

from tests.webhooks.reviews import job, review
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Manifest
from volcano.webhooks.rules import validate


def annotated(url: str) -> Manifest:
    manifest = copy.deepcopy(job())
    manifest["metadata"]["annotations"] = {"volcano.sh/notify": url}
    return manifest


@pytest.mark.parametrize("url", ["example.com", "https://user@example.com/", "gopher://example.com"])
def test_a_job_with_an_invalid_url_is_rejected(url: str) -> None:
    found = [each for each in validate(review(JOB, annotated(url))) if "notify" in each.field]
    assert [each.field for each in found] == ["metadata.annotations[volcano.sh/notify]"]


def test_a_job_with_a_valid_url_is_admitted() -> None:
    assert not [
        each for each in validate(review(JOB, annotated("https://example.com/x"))) if "notify" in each.field
    ]


def test_an_update_is_checked_only_if_annotations_change() -> None:
    bad, good = annotated("example.com"), annotated("https://example.com")
    assert any("notify" in each.field for each in validate(review(JOB, bad, old=good)))
    assert not any("notify" in each.field for each in validate(review(JOB, bad, old=bad)))
