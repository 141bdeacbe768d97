"""Requests of the page Submit: what may be created, and by whom."""

import asyncio

import pytest

from volcano.dashboard.data.submission import new_job
from volcano.dashboard.pages.submit.requests import kind_of, missing_rights
from volcano.dashboard.rights import Rights
from volcano.kube.api.kinds import JOB, QUEUE, Kind
from volcano.kube.api.manifest import Manifest
from volcano.services.errors import Rejected


class Only(Rights):
    """Rights to create one kind in one namespace."""

    def __init__(self, kind: Kind, namespace: str) -> None:
        self._allowed = ("create", kind, namespace)

    async def may(
        self, verb: str, kind: Kind, namespace: str = "", name: str = "", subresource: str = ""
    ) -> bool:
        return (verb, kind, namespace) == self._allowed


def queue(name: str) -> Manifest:
    return {"apiVersion": QUEUE.api_version, "kind": QUEUE.kind, "metadata": {"name": name}}


def test_what_a_viewer_may_not_create_is_named_once() -> None:
    objects = [new_job("a", "q"), new_job("b", "q"), new_job("b", "q"), queue("q")]
    missing = asyncio.run(missing_rights(Only(JOB, "a"), objects))
    assert missing == ["jobs.batch.volcano.sh in namespace b", "queues.scheduling.volcano.sh"]


def test_an_object_without_a_namespace_is_for_the_default_one() -> None:
    job = new_job("", "q")
    assert asyncio.run(missing_rights(Only(JOB, "default"), [job])) == []


def test_a_kind_that_the_page_does_not_create_is_named() -> None:
    with pytest.raises(Rejected, match=r"Widget of example\.com/v1 is not a kind that this page creates"):
        kind_of({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "x"}})
