"""Admission over HTTP: an AdmissionReview goes in, an AdmissionReview comes out, whatever was sent."""

import base64
from typing import Any

import orjson
import pytest

from tests.webhooks.reviews import Objects, job, task
from volcano.base.http.messages import Request, Response
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.patches.patch import json_patch
from volcano.webhooks.registration import configurations
from volcano.webhooks.review import AdmissionOptions
from volcano.webhooks.rules import BY_PATH
from volcano.webhooks.webhook import Webhook


async def ask(path: str, body: bytes) -> Response:
    answer = await Webhook(Objects(), AdmissionOptions())(Request("POST", path, body=body))
    assert isinstance(answer, Response)
    return answer


async def review(path: str, operation: str = "CREATE", resource: str = "jobs", **request: Any) -> Manifest:
    asked = {
        "uid": "u1",
        "operation": operation,
        "namespace": "default",
        "resource": {"group": JOB.group, "version": JOB.version, "resource": resource},
        **request,
    }
    answer = await ask(path, orjson.dumps({"request": asked}))
    found: Manifest = orjson.loads(answer.body)["response"]
    assert found["uid"] == "u1"
    return found


async def test_defaults_come_as_a_json_patch() -> None:
    manifest = job(task(""))
    response = await review("/jobs/mutate", object=manifest)
    patched = json_patch(manifest, orjson.loads(base64.b64decode(response["patch"])))
    assert patched["spec"]["tasks"][0]["name"] == "default0"
    assert patched["spec"]["minAvailable"] == 2


async def test_a_complete_object_gets_no_patch() -> None:
    manifest = job()
    response = await review("/jobs/mutate", object=manifest)
    mutate = json_patch(manifest, orjson.loads(base64.b64decode(response["patch"])))
    assert await review("/jobs/mutate", object=mutate) == {"uid": "u1", "allowed": True}


async def test_a_refusal_names_every_field() -> None:
    response = await review("/jobs/validate", object=job(minAvailable=9, queue="ghost"))
    assert response["allowed"] is False
    assert "spec.minAvailable" in response["status"]["message"]
    assert "spec.queue" in response["status"]["message"]


@pytest.mark.parametrize(
    ("operation", "resource"),
    [
        pytest.param("DELETE", "jobs", id="another operation"),
        pytest.param("CREATE", "pods", id="another resource"),
    ],
)
async def test_what_a_service_does_not_expect_is_refused(operation: str, resource: str) -> None:
    response = await review("/jobs/validate", operation, resource, object=job())
    assert response["allowed"] is False
    assert "expect" in response["status"]["message"]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"request": 1}', b'{"request": {"uid": "x"}}'])
async def test_garbage_is_refused_not_crashed_on(body: bytes) -> None:
    answer = await ask("/jobs/validate", body)
    assert orjson.loads(answer.body)["response"]["allowed"] is False


async def test_an_unknown_path_is_not_found() -> None:
    assert (await ask("/jobs/admire", b"{}")).status == 404


def test_registration_matches_only_our_kinds_and_our_schedulers_pods() -> None:
    made = configurations(
        authority=b"pem",
        enabled=tuple(BY_PATH),
        scheduler_names=("volcano",),
        service=Key("volcano-system", "svc"),
    )
    by_name = {manifest["metadata"]["name"]: manifest["webhooks"][0] for _, manifest in made}
    assert len(by_name) == len(BY_PATH)
    pods = by_name["volcano-admission-service-pods-validate"]
    assert pods["failurePolicy"] == "Ignore"
    assert '"volcano"' in pods["matchConditions"][0]["expression"]
    jobs = by_name["volcano-admission-service-jobs-mutate"]
    assert jobs["clientConfig"]["service"] == {
        "namespace": "volcano-system",
        "name": "svc",
        "path": "/jobs/mutate",
        "port": 443,
    }
    groups = {
        group for webhook in by_name.values() for rule in webhook["rules"] for group in rule["apiGroups"]
    }
    assert {group for group in groups if not group.endswith(".volcano.sh")} == {""}


async def test_a_policy_without_effect_comes_back_as_a_warning() -> None:
    asking = task(topologyPolicy="restricted")
    asking["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    response = await review("/jobs/validate", object=job(asking))
    assert response["allowed"] is True
    assert "spec.tasks[0].topologyPolicy: restricted has no effect" in response["warnings"][0]
    assert "warnings" not in await review("/jobs/validate", object=job())
