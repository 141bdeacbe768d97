"""The default roles: equal to those of a real server for what is served, and updated on existing clusters."""

import json
import ssl
import urllib.request

import pytest

from tests.apiserver.servers import TestServer
from tests.k8s.control_plane.cluster import RealCluster
from volcano.apiserver.authz.bootstrap_roles import METRICS_READER, default_rbac
from volcano.apiserver.bootstrap import bootstrap
from volcano.kube.api.kinds import BUILT_IN, VIRTUAL
from volcano.kube.api.manifest import Manifest

RBAC = "/apis/rbac.authorization.k8s.io/v1"
MERGE = "application/merge-patch+json"
SERVED = {(kind.group, kind.plural) for kind in (*BUILT_IN, *VIRTUAL)}
# Served in part: rules for other resources of these groups grant nothing here.
NOT_SERVED_PATHS = ("/flagz", "/statusz")


async def test_new_rules_reach_existing_roles_and_leave_those_of_administrators() -> None:
    server = await TestServer().start()
    own = {"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["widgets"]}
    await server.ask("PATCH", f"{RBAC}/clusterroles/system:node", {"rules": [own]}, content_type=MERGE)
    await bootstrap(server.registry)
    rules = (await server.get(f"{RBAC}/clusterroles/system:node")).json["rules"]
    assert own in rules
    assert any(rule["resources"] == ["runtimeclasses"] for rule in rules)


async def test_a_role_that_is_not_to_be_updated_stays() -> None:
    server = await TestServer().start()
    keep = {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}
    target = f"{RBAC}/clusterroles/system:node"
    await server.ask("PATCH", target, {"metadata": keep, "rules": []}, content_type=MERGE)
    await bootstrap(server.registry)
    assert not (await server.get(target)).json.get("rules")


async def test_nodes_lose_the_role_that_earlier_versions_gave_to_all_of_them() -> None:
    server = await TestServer().start()
    target = f"{RBAC}/clusterrolebindings/system:node"
    group = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:nodes"}
    user = {**group, "kind": "User", "name": "system:node:old"}
    await server.ask("PATCH", target, {"subjects": [group, user]}, content_type=MERGE)
    await bootstrap(server.registry)
    assert (await server.get(target)).json["subjects"] == [user]


async def test_a_second_start_writes_nothing() -> None:
    server = await TestServer().start()
    before = server.registry.store.version
    await bootstrap(server.registry)
    assert server.registry.store.version == before


@pytest.mark.k8s
def test_default_roles_are_those_of_a_real_server(real_apiserver: RealCluster) -> None:
    real = {
        (item["metadata"].get("namespace", ""), item["metadata"]["name"]): item
        for plural in ("clusterroles", "roles")
        for item in _items(real_apiserver, plural)
    }
    for kind, ours in default_rbac():
        name = ours["metadata"]["name"]
        if kind.plural not in ("clusterroles", "roles") or name in ("admin", "edit", "view"):
            continue  # aggregated from the others
        if name == METRICS_READER:
            continue  # installed with metrics-server
        theirs = real[ours["metadata"].get("namespace", ""), name]
        assert _parts(ours) == _parts(theirs), name


def _items(real: RealCluster, plural: str) -> list[Manifest]:
    headers = {"authorization": f"Bearer {real.token}"}
    request = urllib.request.Request(f"{real.url}{RBAC}/{plural}", headers=headers)
    context = ssl._create_unverified_context()
    with urllib.request.urlopen(request, context=context, timeout=20) as response:
        items: list[Manifest] = json.load(response)["items"]
    return items


def _parts(role: Manifest) -> set[tuple[str, ...]]:
    """One entry for each verb on each resource that is served, or path."""
    parts: set[tuple[str, ...]] = set()
    for rule in role.get("rules") or ():
        for verb in rule["verbs"]:
            parts |= {
                (verb, path) for path in rule.get("nonResourceURLs") or () if path not in NOT_SERVED_PATHS
            }
            parts |= {
                (verb, group, resource, name)
                for group in rule.get("apiGroups") or ()
                for resource in rule.get("resources") or ()
                for name in rule.get("resourceNames") or ("",)
                if _is_served(group, resource) or (role["metadata"]["name"] == "system:node")
            }
    return parts


def _is_served(group: str, resource: str) -> bool:
    if group == "extensions" or resource == "deployments/rollback":
        return False  # of old versions
    plural = resource.partition("/")[0]
    return group == "*" or plural in ("signers", "ingresses", "bindings") or (group, plural) in SERVED
