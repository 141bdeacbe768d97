"""Registered webhooks are called over HTTPS, as a real server calls them."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.apiserver.registries import config_map
from tests.apiserver.servers import TestServer
from volcano.apiserver.admission.chain import chain
from volcano.apiserver.interfaces import SYSTEM, AdmissionPlugin, Attributes, Lookup, admission_plugin
from volcano.apiserver.registry.kind_table import KindTable
from volcano.apiserver.registry.lookup import StoreLookup
from volcano.apiserver.storage.store import Store
from volcano.base.http.messages import Answer, Request, Response
from volcano.base.http.server import Server
from volcano.base.http.tls import Authority, create_authority, issue, server_context
from volcano.kube.api import kinds
from volcano.kube.api.manifest import Key, Manifest

MAPS = "/api/v1/namespaces/default/configmaps"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
ReviewHandler = Callable[[Any], Any]


class Hooks:
    """A webhook server; each path answers as its function says. Remembers what it was asked."""

    def __init__(self, authority: Authority) -> None:
        credential = issue(
            authority, "hooks", now=time.time(), hosts=["127.0.0.1", "hooks.default.svc"], server=True
        )
        self.server = Server(self._answer, tls=server_context(credential))
        self.authority = base64.b64encode(authority.cert_pem).decode()
        self.handlers: dict[str, ReviewHandler] = {}
        self.asked: list[tuple[str, Any]] = []

    async def _answer(self, request: Request) -> Answer:
        review = json.loads(request.body)
        self.asked.append((request.path, review["request"]))
        answer = self.handlers[request.path](review["request"])
        if isinstance(answer, Response):
            return answer
        response = {"uid": review["request"]["uid"], "allowed": True, **answer}
        body = {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}
        return Response(200, {"Content-Type": "application/json"}, json.dumps(body).encode())

    def client(self, path: str) -> Manifest:
        return {"url": f"{self.server.url}{path}", "caBundle": self.authority}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return create_authority("hooks", now=time.time())


@pytest.fixture
async def hooks(authority: Authority) -> AsyncIterator[Hooks]:
    hooks = Hooks(authority)
    await hooks.server.start()
    yield hooks
    await hooks.server.stop(grace=0.1)


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    server = await TestServer().start()
    yield server
    await server.api.close()


ON_MAPS = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
    "operations": ["CREATE", "UPDATE"],
}


async def register(server: TestServer, mode: str, *webhooks: Manifest, name: str = "hooks") -> None:
    defaults: Manifest = {
        "rules": [ON_MAPS],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 2,
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{mode}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{**defaults, **hook} for hook in webhooks],
    }
    await server.made(f"{HOOKS}/{mode.lower()}webhookconfigurations", body)


def patch(*operations: Manifest) -> Manifest:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


def add(key: str, value: str = "1") -> Manifest:
    return patch({"op": "add", "path": f"/data/{key}", "value": value})


async def test_a_mutating_webhook_changes_the_object(server: TestServer, hooks: Hooks) -> None:
    hooks.handlers["/m"] = lambda review: add("added", review["userInfo"]["username"])
    await register(server, "Mutating", {"name": "m.example.com", "clientConfig": hooks.client("/m")})
    made = await server.made(MAPS, config_map("a", key="1"))
    assert made["data"] == {"key": "1", "added": "kubernetes-admin"}
    ((_, review),) = hooks.asked
    assert (review["operation"], review["namespace"], review["name"]) == ("CREATE", "default", "a")
    assert review["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert review["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (review["object"]["data"], review["oldObject"], review["dryRun"]) == ({"key": "1"}, None, False)
    assert review["options"]["kind"] == "CreateOptions"


async def test_a_validating_webhook_denies_with_its_own_words_and_code(
    server: TestServer, hooks: Hooks
) -> None:
    hooks.handlers["/v"] = lambda review: {"allowed": False, "status": {"message": "too shiny", "code": 403}}
    await register(server, "Validating", {"name": "v.example.com", "clientConfig": hooks.client("/v")})
    refused = await server.post(MAPS, config_map("a"))
    assert refused.code == 403
    assert refused.message == 'admission webhook "v.example.com" denied the request: too shiny'
    assert (await server.get(f"{MAPS}/a")).code == 404


async def test_a_denial_without_words_is_a_400(server: TestServer, hooks: Hooks) -> None:
    hooks.handlers["/v"] = lambda review: {"allowed": False}
    await register(server, "Validating", {"name": "v.example.com", "clientConfig": hooks.client("/v")})
    refused = await server.post(MAPS, config_map("a"))
    assert (refused.code, refused.message) == (
        400,
        'admission webhook "v.example.com" denied the request without explanation',
    )


async def test_warnings_reach_the_client(server: TestServer, hooks: Hooks) -> None:
    hooks.handlers["/v"] = lambda review: {"warnings": ["getting old"]}
    await register(server, "Validating", {"name": "v.example.com", "clientConfig": hooks.client("/v")})
    assert (await server.post(MAPS, config_map("a"))).headers["Warning"] == '299 - "getting old"'


async def test_webhooks_are_called_in_order_and_again_if_asked_for(server: TestServer, hooks: Hooks) -> None:
    hooks.handlers["/first"] = lambda review: add(f"first{len(hooks.asked)}")
    hooks.handlers["/second"] = lambda review: add("second")
    first = {
        "name": "f.example.com",
        "clientConfig": hooks.client("/first"),
        "reinvocationPolicy": "IfNeeded",
    }
    second = {"name": "s.example.com", "clientConfig": hooks.client("/second")}
    await register(server, "Mutating", second, name="b")
    await register(server, "Mutating", first, name="a")
    await server.made(MAPS, config_map("x", key="1"))
    assert [path for path, _ in hooks.asked] == ["/first", "/second", "/first"]


async def test_nobody_is_called_again_when_nothing_changed(server: TestServer, hooks: Hooks) -> None:
    hooks.handlers["/m"] = lambda review: {}
    hook = {"name": "m.example.com", "clientConfig": hooks.client("/m"), "reinvocationPolicy": "IfNeeded"}
    await register(server, "Mutating", hook)
    await server.made(MAPS, config_map("x"))
    assert len(hooks.asked) == 1


@pytest.mark.parametrize(
    ("hook", "called"),
    [
        pytest.param({"rules": [{**ON_MAPS, "operations": ["DELETE"]}]}, False, id="another operation"),
        pytest.param({"rules": [{**ON_MAPS, "operations": ["*"]}]}, True, id="any operation"),
        pytest.param({"rules": [{**ON_MAPS, "resources": ["*"]}]}, True, id="any resource"),
        pytest.param({"rules": [{**ON_MAPS, "resources": ["pods"]}]}, False, id="another resource"),
        pytest.param({"rules": [{**ON_MAPS, "apiGroups": ["apps"]}]}, False, id="another group"),
        pytest.param({"rules": [{**ON_MAPS, "scope": "Cluster"}]}, False, id="another scope"),
        pytest.param({"rules": [{**ON_MAPS, "scope": "Namespaced"}]}, True, id="the right scope"),
        pytest.param({"objectSelector": {"matchLabels": {"a": "b"}}}, False, id="another object"),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}},
            True,
            id="the namespace",
        ),
        pytest.param({"namespaceSelector": {"matchLabels": {"x": "y"}}}, False, id="another namespace"),
        pytest.param(
            {"matchConditions": [{"name": "c", "expression": "object.metadata.name == 'a'"}]},
            True,
            id="CEL says yes",
        ),
        pytest.param(
            {"matchConditions": [{"name": "c", "expression": "request.operation == 'DELETE'"}]},
            False,
            id="CEL says no",
        ),
    ],
)
async def test_only_webhooks_that_a_request_concerns_are_called(
    server: TestServer, hooks: Hooks, hook: Manifest, called: bool
) -> None:
    hooks.handlers["/v"] = lambda review: {}
    await register(
        server, "Validating", {"name": "v.example.com", "clientConfig": hooks.client("/v"), **hook}
    )
    await server.made(MAPS, config_map("a"))
    assert bool(hooks.asked) is called


async def test_deletions_show_the_old_object(server: TestServer, hooks: Hooks) -> None:
    hooks.handlers["/v"] = lambda review: {"allowed": False, "status": {"message": "keep it"}}
    hook = {
        "name": "v.example.com",
        "clientConfig": hooks.client("/v"),
        "rules": [{**ON_MAPS, "operations": ["DELETE"]}],
    }
    await register(server, "Validating", hook)
    await server.made(MAPS, config_map("a", key="1"))
    assert (await server.ask("DELETE", f"{MAPS}/a")).code == 400
    ((_, review),) = hooks.asked
    assert (review["operation"], review["object"], review["oldObject"]["data"]) == (
        "DELETE",
        None,
        {"key": "1"},
    )


BROKEN: dict[str, ReviewHandler] = {
    "an error": lambda review: Response(500, {}, b"boom"),
    "no JSON": lambda review: Response(200, {}, b"<html>"),
    "no response": lambda review: Response(200, {}, b"{}"),
    "another uid": lambda review: {"uid": "other"},
    "a patch that is none": lambda review: {"patchType": "JSONPatch", "patch": "!!!"},
    "a patch of an unknown type": lambda review: {"patchType": "Merge", "patch": "e30="},
    "a patch that does not apply": lambda review: patch({"op": "remove", "path": "/nothing"}),
    "a patch that removes everything": lambda review: patch({"op": "replace", "path": "", "value": 1}),
}


@pytest.mark.parametrize("trouble", BROKEN)
async def test_a_broken_webhook_fails_the_request_or_is_ignored(
    server: TestServer, hooks: Hooks, trouble: str
) -> None:
    hooks.handlers["/m"] = BROKEN[trouble]
    hook = {"name": "m.example.com", "clientConfig": hooks.client("/m")}
    await register(server, "Mutating", {**hook, "failurePolicy": "Fail"})
    refused = await server.post(MAPS, config_map("a"))
    assert refused.code == 500
    assert refused.message.startswith('Internal error occurred: failed calling webhook "m.example.com": ')
    await server.ask("DELETE", f"{HOOKS}/mutatingwebhookconfigurations/hooks")
    await register(server, "Mutating", {**hook, "failurePolicy": "Ignore"})
    assert (await server.post(MAPS, config_map("a"))).code == 201


async def test_a_webhook_nobody_can_reach_fails_the_request(server: TestServer) -> None:
    hook = {"name": "m.example.com", "clientConfig": {"url": "https://127.0.0.1:9/x"}}
    await register(server, "Mutating", hook)
    refused = await server.post(MAPS, config_map("a"))
    assert refused.code == 500
    assert 'failed to call webhook: Post "https://127.0.0.1:9/x?timeout=2s"' in refused.message


async def test_the_time_limit_of_a_webhook_includes_connecting(server: TestServer) -> None:
    """The server accepts connections and never answers the TLS handshake."""

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(wait, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    hook = {
        "name": "m.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/x"},
        "timeoutSeconds": 1,
    }
    await register(server, "Mutating", hook)
    began = time.monotonic()
    refused = await server.post(MAPS, config_map("a"))
    assert refused.code == 500
    assert f'Post "https://127.0.0.1:{port}/x?timeout=1s": context deadline exceeded' in refused.message
    assert time.monotonic() - began < 5.0  # connections have 10 seconds otherwise
    silent.close()
    await silent.wait_closed()


async def test_a_webhook_whose_certificate_is_not_trusted_fails_the_request(
    server: TestServer, hooks: Hooks
) -> None:
    foreign = base64.b64encode(create_authority("other", now=time.time()).cert_pem).decode()
    client = {"url": f"{hooks.server.url}/v", "caBundle": foreign}
    await register(server, "Validating", {"name": "v.example.com", "clientConfig": client})
    assert (await server.post(MAPS, config_map("a"))).code == 500
    assert hooks.asked == []


async def test_a_condition_that_fails_forbids_or_is_ignored(server: TestServer, hooks: Hooks) -> None:
    hooks.handlers["/v"] = lambda review: {}
    condition = {"matchConditions": [{"name": "c", "expression": "object.data.nothing.deeper == 1"}]}
    hook = {"name": "v.example.com", "clientConfig": hooks.client("/v"), **condition}
    await register(server, "Validating", hook)
    assert (await server.post(MAPS, config_map("a"))).code == 403
    assert hooks.asked == []


async def test_dry_runs_need_webhooks_without_side_effects(server: TestServer, hooks: Hooks) -> None:
    hooks.handlers["/v"] = lambda review: {}
    hook = {"name": "v.example.com", "clientConfig": hooks.client("/v")}
    await register(server, "Validating", {**hook, "sideEffects": "NoneOnDryRun"})
    assert (await server.post(f"{MAPS}?dryRun=All", config_map("a"))).code == 201
    assert hooks.asked[0][1]["dryRun"] is True


async def test_a_service_leads_to_its_endpoints(server: TestServer, hooks: Hooks) -> None:
    hooks.handlers["/v"] = lambda review: {"allowed": False, "status": {"message": "seen"}}
    port = int(hooks.server.url.rpartition(":")[2])
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "hooks"},
        "spec": {"ports": [{"name": "https", "port": 443, "targetPort": 8443}]},
    }
    endpoints = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "hooks"},
        "subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "https", "port": port}]}],
    }
    client = {
        "service": {"namespace": "default", "name": "hooks", "path": "/v", "port": 443},
        "caBundle": hooks.authority,
    }
    await register(server, "Validating", {"name": "v.example.com", "clientConfig": client})
    nowhere = await server.post(MAPS, config_map("a"))
    assert 'service "hooks" not found' in nowhere.message
    await server.made("/api/v1/namespaces/default/services", service)
    # The API refuses loopback endpoints from clients; our own processes listen there, so they are stored directly.
    endpoints["metadata"] = {"name": "hooks", "namespace": "default"}
    server.registry.store.put("endpoints", endpoints, None)
    refused = await server.post(MAPS, config_map("a"))
    assert refused.message == 'admission webhook "v.example.com" denied the request: seen'


async def test_webhook_configurations_themselves_are_never_reviewed(server: TestServer, hooks: Hooks) -> None:
    hooks.handlers["/v"] = lambda review: {"allowed": False}
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
    hook = {"name": "v.example.com", "clientConfig": hooks.client("/v"), "rules": [everything]}
    await register(server, "Validating", hook)
    assert (await server.ask("DELETE", f"{HOOKS}/validatingwebhookconfigurations/hooks")).code == 200
    assert (await server.post(MAPS, config_map("a"))).code == 201


async def test_a_plugin_receives_the_result_of_the_one_before() -> None:
    def plugin(text: str) -> AdmissionPlugin:
        @admission_plugin()
        async def admit(
            request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
        ) -> Manifest | None:
            assert new is not None
            return {"said": new["said"] + text}

        return admit

    class Nothing:
        def find(self, kind: kinds.Kind, key: Key) -> Manifest | None:
            return None

        def all(self, kind: kinds.Kind, namespace: str = "") -> list[Manifest]:
            return []

    request = Attributes("create", kinds.POD, Key("a", "b"), SYSTEM)
    assert await chain(plugin("a"), plugin("b"))(request, {"said": ""}, None, Nothing()) == {"said": "ab"}


async def test_a_plugin_is_called_only_for_kinds_that_it_handles() -> None:
    asked: list[str] = []

    @admission_plugin(kinds.POD)
    async def of_pods(
        request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        asked.append(request.kind.kind)
        return new

    lookup = StoreLookup(Store(), KindTable(()))
    admit = chain(of_pods)
    for kind in (kinds.POD, kinds.SECRET, kinds.POD):
        assert await admit(Attributes("create", kind, Key("a", "b"), SYSTEM), {"x": 1}, None, lookup) == {
            "x": 1
        }
    assert asked == ["Pod", "Pod"]
