"""Warnings about networkTopology: a hard limit without a tier, and a tier name that no HyperNode has."""

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from tests.webhooks.reviews import Objects, job, review, task
from volcano.base.http.messages import Request, Response
from volcano.kube.api.errors import Forbidden
from volcano.kube.api.kinds import HYPER_NODE, JOB, POD_GROUP, Kind
from volcano.kube.api.manifest import Manifest
from volcano.webhooks.review import AdmissionOptions, Lookup, NotCached
from volcano.webhooks.rules import validate, warnings
from volcano.webhooks.webhook import Webhook

RACK: Manifest = {"metadata": {"name": "r"}, "spec": {"tier": 1, "tierName": "rack"}}


def warned(kind: Kind, manifest: Manifest, old: Manifest | None = None) -> list[str]:
    return warnings(review(kind, manifest, old, {HYPER_NODE: [RACK]}))


@pytest.mark.parametrize(
    "topology",
    [
        pytest.param({"mode": "hard", "highestTierAllowed": 1}, id="a tier"),
        pytest.param({"mode": "hard", "highestTierName": "rack"}, id="a known name"),
        pytest.param({"mode": "soft"}, id="soft"),
        pytest.param({"mode": "soft", "highestTierName": "zone"}, id="soft with an unknown name"),
    ],
)
def test_what_is_clear_gets_no_warning(topology: Mapping[str, Any]) -> None:
    assert not warned(JOB, job(networkTopology=topology))


def test_an_unknown_name_is_named_with_the_known_ones_and_accepted() -> None:
    manifest = job(networkTopology={"mode": "hard", "highestTierName": "zone"})
    assert warned(JOB, manifest) == [
        'spec.networkTopology.highestTierName: no HyperNode has the tierName "zone"; known names: rack. '
        "The pods wait until one has it"
    ]
    assert not [v for v in validate(review(JOB, manifest)) if "opology" in v.field]


def test_hard_without_a_tier_is_told_to_be_soft() -> None:
    [text] = warned(JOB, job(networkTopology={"mode": "hard"}))
    assert text.startswith("spec.networkTopology: mode hard without")


def test_parts_are_named_by_their_path() -> None:
    part = task(partitionPolicy={"totalPartitions": 1, "partitionSize": 2, "networkTopology": {}})
    [text] = warned(JOB, job(task("first"), part))
    assert text.startswith("spec.tasks[1].partitionPolicy.networkTopology: ")
    group = {
        "metadata": {"name": "g"},
        "spec": {"subGroupPolicy": [{"networkTopology": {"highestTierName": "x"}}]},
    }
    [text] = warned(POD_GROUP, group)
    assert text.startswith("spec.subGroupPolicy[0].networkTopology.highestTierName: ")


def test_updates_get_no_warning() -> None:
    manifest = job(networkTopology={"mode": "hard"})
    assert not warned(JOB, manifest, manifest)


class WithoutHyperNodes(Objects):
    def all(self, kind: Kind, namespace: str = "") -> list[Manifest]:
        if kind == HYPER_NODE:
            raise NotCached(kind)
        return super().all(kind, namespace)


async def asked(webhook: Webhook) -> Manifest:
    manifest = job(networkTopology={"mode": "hard", "highestTierName": "zone"}, minAvailable=2)
    request = {
        "uid": "u", "operation": "CREATE", "namespace": "default", "object": manifest,
        "resource": {"group": JOB.group, "version": JOB.version, "resource": "jobs"},
    }  # fmt: skip
    answer = await webhook(Request("POST", "/jobs/validate", body=orjson.dumps({"request": request})))
    assert isinstance(answer, Response)
    response: Manifest = orjson.loads(answer.body)["response"]
    return response


async def test_the_webhook_fetches_hypernodes_for_the_warning() -> None:
    async def fetch(kind: Kind) -> Lookup:
        return Objects({kind: [RACK]})

    response = await asked(Webhook(WithoutHyperNodes(), AdmissionOptions(), fetch=fetch))
    assert response["allowed"] is True
    assert "known names: rack" in response["warnings"][0]


async def test_hypernodes_that_cannot_be_read_reject_nothing() -> None:
    async def fetch(kind: Kind) -> Lookup:
        raise Forbidden("hypernodes is forbidden")

    response = await asked(Webhook(WithoutHyperNodes(), AdmissionOptions(), fetch=fetch))
    assert response == {"uid": "u", "allowed": True}
