"""Ours and a real API server keep the same book of who owns which field, through every kind of write."""

import asyncio
import copy
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.apiserver.endpoints.test_surface_parity import Both
from tests.k8s.control_plane.cluster import RealCluster

pytestmark = pytest.mark.k8s

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/shop.example.com/v1/namespaces/default/widgets"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Ask(NamedTuple):
    """One request; apply requests go to the object itself."""

    method: str
    target: str
    body: Any
    content_type: str = "application/json"


def config_map(name: str, data: dict[str, str], **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data}


def deployment(name: str, containers: list[Any], **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers}}
    selector = {"matchLabels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": selector, "template": template, **spec},
    }


def applied(target: str, body: Any, manager: str, *, force: bool = False) -> Ask:
    forced = "&force=true" if force else ""
    return Ask("PATCH", f"{target}/{body['metadata']['name']}?fieldManager={manager}{forced}", body, APPLY)


def client_side(name: str, data: dict[str, str]) -> dict[str, Any]:
    plain = config_map(name, data)
    return config_map(name, data, annotations={LAST_APPLIED: json.dumps(plain) + "\n"})


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "b"}},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "ports": [{"containerPort": 80}],
                "env": [{"name": "A", "value": "1"}],
                "resources": {"requests": {"cpu": "1"}},
            }
        ],
        "nodeSelector": {"x": "y"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
    },
}
WIDGET_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.shop.example.com"},
    "spec": {
        "group": "shop.example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer"},
                                    "tags": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "set",
                                        "items": {"type": "string"},
                                    },
                                    "parts": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": {"type": "string"},
                                                "color": {"type": "string"},
                                            },
                                        },
                                    },
                                    "steps": {"type": "array", "items": {"type": "string"}},
                                    "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                },
                            },
                            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
                        },
                    }
                },
            }
        ],
    },
}


def widget(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


HISTORIES: dict[str, list[Ask]] = {
    "create, then patches of every type": [
        Ask(
            "POST", f"{MAPS}?fieldManager=creator", config_map("h1", {"a": "1", "b": "1"}, labels={"l": "1"})
        ),
        Ask("PATCH", f"{MAPS}/h1?fieldManager=merger", {"data": {"b": "2", "c": "3"}}, MERGE),
        Ask("PATCH", f"{MAPS}/h1?fieldManager=strategic", {"data": {"a": None}}, STRATEGIC),
        Ask(
            "PATCH", f"{MAPS}/h1?fieldManager=j", [{"op": "add", "path": "/data/d", "value": "4"}], JSON_PATCH
        ),
        Ask("PATCH", f"{MAPS}/h1?fieldManager=j", {"metadata": {"managedFields": [{}]}}, MERGE),
    ],
    "two appliers": [
        applied(MAPS, config_map("h2", {"a": "1", "b": "1"}), "one"),
        applied(MAPS, config_map("h2", {"b": "1", "c": "1"}, labels={"x": "y"}), "two"),
        applied(MAPS, config_map("h2", {"b": "9"}), "two"),
        applied(MAPS, config_map("h2", {"a": "9", "b": "9"}), "three"),
        applied(MAPS, config_map("h2", {"b": "9"}), "two", force=True),
        applied(MAPS, config_map("h2", {}), "one"),
        applied(MAPS, config_map("h2", {"b": "9"}), "two"),
    ],
    "from client-side to server-side apply": [
        Ask(
            "POST", f"{MAPS}?fieldManager=kubectl-client-side-apply", client_side("h3", {"a": "1", "b": "1"})
        ),
        applied(MAPS, config_map("h3", {"a": "2", "b": "1"}), "kubectl"),
        applied(MAPS, config_map("h3", {"a": "3"}), "another"),
    ],
    "a deployment": [
        Ask("POST", f"{DEPLOYMENTS}?fieldManager=creator", deployment("h4", [{"name": "c", "image": "i"}])),
        applied(DEPLOYMENTS, deployment("h4", [{"name": "c", "image": "j"}], replicas=3), "me"),
        applied(DEPLOYMENTS, deployment("h4", [{"name": "c", "image": "j"}], replicas=3), "me", force=True),
        applied(
            DEPLOYMENTS,
            deployment("h4", [{"name": "d", "image": "k", "ports": [{"containerPort": 80}]}]),
            "other",
        ),
        Ask("PATCH", f"{DEPLOYMENTS}/h4/scale?fieldManager=scaler", {"spec": {"replicas": 5}}, MERGE),
        Ask("GET", f"{DEPLOYMENTS}/h4", None),
        applied(DEPLOYMENTS, deployment("h4", [{"name": "c", "image": "j"}]), "me"),
        Ask("PATCH", f"{DEPLOYMENTS}/h4/status?fieldManager=ctl", {"status": {"replicas": 2}}, MERGE),
        Ask("PATCH", f"{DEPLOYMENTS}/h4?fieldManager=ed", {"status": {"replicas": 9}}, MERGE),
    ],
    "a pod": [
        Ask("POST", f"{PODS}?fieldManager=creator", POD),
        Ask("PATCH", f"{PODS}/p/status?fieldManager=kubelet", {"status": {"phase": "Running"}}, STRATEGIC),
        applied(PODS, {**POD, "spec": {"containers": [{"name": "c", "image": "j"}]}}, "me"),
        applied(PODS, {**POD, "spec": {"containers": [{"name": "c", "image": "j"}]}}, "me", force=True),
    ],
    "a service": [
        applied(
            SERVICES,
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "s"},
                "spec": {"selector": {"a": "b"}, "ports": [{"port": 80, "protocol": "TCP"}]},
            },
            "me",
        ),
    ],
    "a custom kind": [
        Ask(
            "POST", f"{WIDGETS}?fieldManager=creator", widget("w", size=1, steps=["x"], extra={"a": {"b": 1}})
        ),
        applied(WIDGETS, widget("w", tags=["t"], parts=[{"name": "p", "color": "red"}]), "me"),
        applied(WIDGETS, widget("w", tags=["u"], parts=[{"name": "q"}], size=2), "you"),
        applied(WIDGETS, widget("w", tags=["u"], parts=[{"name": "q"}], size=2), "you", force=True),
        applied(WIDGETS, widget("w", size=2), "me"),
        Ask("PATCH", f"{WIDGETS}/w/status?fieldManager=ctl", {"status": {"phase": "Ready"}}, MERGE),
    ],
    "what does not fit": [
        applied(MAPS, {**config_map("x1", {}), "nonsense": 1}, "me"),
        applied(
            DEPLOYMENTS, deployment("x2", [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]), "me"
        ),
        applied(MAPS, config_map("x3", {}, managedFields=[]), "me"),
        applied(DEPLOYMENTS, deployment("x4", [{"name": "c", "image": "i", "foo": 1}]), "me"),
        applied(DEPLOYMENTS, deployment("x5", [{"image": "i"}]), "me"),
    ],
}


@pytest.fixture(scope="module")
def both(real_apiserver: RealCluster) -> Iterator[Both]:
    with asyncio.Runner() as runner:
        both = Both(real_apiserver, runner)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        both.ask("POST", "/api/v1/namespaces/default/serviceaccounts", account)
        both.ask("POST", CRDS, WIDGET_CRD)
        for _ in range(50):
            codes = [code for code, _ in both.ask("GET", WIDGETS)]
            if codes == [200, 200]:
                break
            runner.run(asyncio.sleep(0.2))
        yield both


def book(answer: tuple[int, Any]) -> Any:
    """What matters of an answer: the message of a refusal, or who owns what, at what time left aside."""
    code, body = answer
    if body.get("kind") == "Status":
        causes = (body.get("details") or {}).get("causes")
        # parity: a real server answers 500, with no reason, when a configuration does not fit its schema.
        refusal = (code, body.get("reason")) if "typed patch object" not in body["message"] else None
        text = sorted(body["message"].replace("(default/", "(/").splitlines())
        return refusal, text, causes and sorted(map(json.dumps, causes))
    entries = copy.deepcopy(body["metadata"].get("managedFields") or [])
    for entry in entries:
        # parity: a real server notes no time for writes to the scale subresource.
        entry["time"] = "time" in entry or entry.get("subresource") == "scale"
    return code, sorted(entries, key=lambda entry: (entry["operation"], entry["manager"]))


@pytest.mark.parametrize("name", HISTORIES)
def test_both_servers_keep_the_same_book(both: Both, name: str) -> None:
    for step, ask in enumerate(HISTORIES[name]):
        ours, real = both.ask(ask.method, ask.target, ask.body, content_type=ask.content_type)
        assert book(ours) == book(real), f"step {step}: {ask.method} {ask.target}"
