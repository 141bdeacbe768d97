"""Conversion webhooks are bounded in time and reached by URL or Service; a CRD's conversion is validated."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.apiserver.schema.test_crds import definition
from tests.apiserver.servers import TestServer
from volcano.apiserver.admission import conversion_webhooks
from volcano.apiserver.admission.conversion_webhooks import ConversionWebhooks
from volcano.apiserver.registry.kind_table import KindTable
from volcano.apiserver.registry.lookup import StoreLookup
from volcano.apiserver.registry.strategies import built_in_kinds
from volcano.apiserver.schema.validation.crds import conversion
from volcano.apiserver.storage.store import Store
from volcano.base.http.dialer import Dialer
from volcano.base.http.messages import Answer, Request, Response
from volcano.base.http.server import Server
from volcano.base.http.tls import create_authority, issue, server_context
from volcano.kube.api.errors import InternalError
from volcano.kube.api.kinds import ENDPOINT_SLICE, SERVICE
from volcano.kube.api.manifest import Manifest

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
URL = {"url": "https://hooks.example.com/convert"}
WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "default"}}


class Hook:
    """A webhook that changes the apiVersion; `delay` seconds late."""

    def __init__(self) -> None:
        authority = create_authority("hooks", now=time.time())
        hosts = ["127.0.0.1", "hooks.default.svc"]
        credential = issue(authority, "hooks", now=time.time(), hosts=hosts, server=True)
        self.server = Server(self._answer, tls=server_context(credential))
        self.bundle = base64.b64encode(authority.cert_pem).decode()
        self.delay = 0.0

    async def _answer(self, request: Request) -> Answer:
        await asyncio.sleep(self.delay)
        review = json.loads(request.body)
        objects = [
            {**each, "apiVersion": review["request"]["desiredAPIVersion"]}
            for each in review["request"]["objects"]
        ]
        response = {
            "uid": review["request"]["uid"],
            "result": {"status": "Success"},
            "convertedObjects": objects,
        }
        body = {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}
        return Response(200, {}, json.dumps(body).encode())


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    hook = Hook()
    await hook.server.start()
    yield hook
    await hook.server.stop(grace=0)


def webhook(client: Manifest, *versions: str) -> Manifest:
    return {"webhook": {"clientConfig": client, "conversionReviewVersions": list(versions or ("v1",))}}


def webhooks(store: Store) -> ConversionWebhooks:
    return ConversionWebhooks(lambda: "uid", StoreLookup(store, KindTable(built_in_kinds())), Dialer().dial)


@pytest.mark.parametrize("versions", [("v1",), ("v2", "v1beta1"), ("v1beta1", "v1")])
async def test_the_first_known_review_version_is_used(hook: Hook, versions: tuple[str, ...]) -> None:
    made = webhooks(Store())
    client = {"url": f"{hook.server.url}/", "caBundle": hook.bundle}
    (converted,) = await made.convert(webhook(client, *versions), [dict(WIDGET)], "example.com/v2")
    assert converted == {**WIDGET, "apiVersion": "example.com/v2"}
    await made.close()


async def test_a_service_is_resolved_to_its_endpoints(hook: Hook) -> None:
    store = Store()
    port = int(hook.server.url.rpartition(":")[2])
    metadata = {
        "name": "hooks",
        "namespace": "default",
        "uid": "1",
        "labels": {"kubernetes.io/service-name": "hooks"},
    }
    store.put(
        SERVICE.resource,
        {"metadata": dict(metadata), "spec": {"ports": [{"port": 443, "name": "https"}]}},
        None,
    )
    endpoints = {
        "metadata": dict(metadata),
        "endpoints": [{"addresses": ["127.0.0.1"]}],
        "ports": [{"name": "https", "port": port}],
    }
    store.put(ENDPOINT_SLICE.resource, endpoints, None)
    made = webhooks(store)
    client = {"service": {"name": "hooks", "namespace": "default"}, "caBundle": hook.bundle}
    (converted,) = await made.convert(webhook(client), [dict(WIDGET)], "example.com/v2")
    assert converted["apiVersion"] == "example.com/v2"
    await made.close()


async def test_a_webhook_that_does_not_respond_is_an_error_in_time(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion_webhooks, "TIMEOUT", 0.2)
    hook.delay = 30
    made = webhooks(Store())
    client = {"url": f"{hook.server.url}/", "caBundle": hook.bundle}
    began = time.monotonic()
    with pytest.raises(InternalError, match=r"conversion webhook for example.com/v1, Kind=Widget failed"):
        await made.convert(webhook(client), [dict(WIDGET)], "example.com/v2")
    assert time.monotonic() - began < 10
    await made.close()


@pytest.mark.parametrize(
    ("given", "field", "text"),
    [
        ({"strategy": "Webhook"}, "webhookClientConfig", "required when strategy is set to Webhook"),
        ({"strategy": "Webhook", **webhook({})}, "webhookClientConfig", "exactly one of url or service"),
        (
            {"strategy": "Webhook", **webhook({"url": "http://a"})},
            "webhookClientConfig.url",
            "'https' is the only",
        ),
        (
            {"strategy": "Webhook", **webhook(URL, "v9")},
            "conversionReviewVersions",
            "must include at least one of",
        ),
        (
            {"strategy": "Webhook", **webhook(URL, "v1", "v1")},
            "conversionReviewVersions[1]",
            "duplicate version",
        ),
        (
            {"strategy": "Webhook", **webhook({"service": {"name": "a", "namespace": "b", "port": 99999}})},
            "webhookClientConfig.service.port",
            "port is not valid",
        ),
        ({"strategy": "None", **webhook(URL)}, "webhookClientConfig", "should not be set"),
        ({"strategy": "Other"}, "strategy", "supported values"),
    ],
)
def test_an_invalid_conversion_is_rejected(given: Manifest, field: str, text: str) -> None:
    cause = next(iter(conversion(given)))
    assert cause.field == f"spec.conversion.{field}"
    assert text in cause.message


async def test_a_version_that_objects_are_stored_in_cannot_be_removed() -> None:
    server = await TestServer().start()
    crd: Any = definition()
    crd["spec"]["versions"].append({**crd["spec"]["versions"][0], "name": "v2", "storage": False})
    made = await server.made(CRDS, crd)
    for version in made["spec"]["versions"]:
        version["storage"] = version["name"] == "v2"
    changed = (await server.ask("PUT", f"{CRDS}/widgets.example.com", made)).json
    assert changed["status"]["storedVersions"] == ["v1", "v2"]
    changed["spec"]["versions"] = [
        version for version in changed["spec"]["versions"] if version["name"] == "v2"
    ]
    answer = await server.ask("PUT", f"{CRDS}/widgets.example.com", changed)
    assert answer.code == 422
    assert "status.storedVersions[0]" in answer.message
    await server.api.close()
