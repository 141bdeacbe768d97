"""Who may do what."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.apiserver.servers import TestServer
from volcano.apiserver.authz.actions import Action, Rule, forbidden_action, missing, rule_of
from volcano.apiserver.interfaces import User
from volcano.kube.api.manifest import Manifest

RBAC = "/apis/rbac.authorization.k8s.io/v1"
JOE = User("joe", ("dev", "system:authenticated"))


@pytest.mark.parametrize(
    ("rule", "action", "allowed"),
    [
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, Action("get", "", "pods"), True),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, Action("list", "", "pods"), False),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, Action("get", "apps", "pods"), False),
        (
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
            Action("get", "", "pods", "log"),
            False,
        ),
        (
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]},
            Action("get", "", "pods", "log"),
            True,
        ),
        (
            {"verbs": ["get"], "apiGroups": [""], "resources": ["*/log"]},
            Action("get", "", "pods", "log"),
            True,
        ),
        ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, Action("x", "y", "z", "w"), True),
        ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, Action("get", path="/metrics"), False),
        (
            {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]},
            Action("get", "", "secrets", name="a"),
            True,
        ),
        (
            {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]},
            Action("get", "", "secrets", name="b"),
            False,
        ),
        ({"verbs": ["get"], "nonResourceURLs": ["/healthz/*"]}, Action("get", path="/healthz/ping"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["/healthz"]}, Action("get", path="/healthz/ping"), False),
    ],
)
def test_a_rule_allows_what_it_says(rule: Manifest, action: Action, allowed: bool) -> None:
    assert rule_of(rule).allows(action) is allowed


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (
            Action("list", "", "pods", namespace="ns"),
            'pods is forbidden: User "joe" cannot list resource "pods" in API group "" in the namespace "ns"',
        ),
        (
            Action("get", "apps", "deployments", "scale", "d", "ns"),
            'deployments.apps "d" is forbidden: User "joe" cannot get resource "deployments/scale" '
            'in API group "apps" in the namespace "ns"',
        ),
        (
            Action("list", "", "nodes"),
            'nodes is forbidden: User "joe" cannot list resource "nodes" in API group "" at the cluster scope',
        ),
        (Action("get", path="/metrics"), 'forbidden: User "joe" cannot get path "/metrics"'),
    ],
)
def test_refusals_are_worded_as_clients_know_them(action: Action, text: str) -> None:
    assert forbidden_action(JOE, action).message == text


@pytest.fixture
async def server() -> TestServer:
    return await TestServer(tokens={"joes": JOE}).start()


def role(name: str, *rules: Manifest, kind: str = "Role", **more: Any) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, **more.pop("metadata", {})},
        "rules": list(rules),
        **more,
    }


def binding(
    name: str, role_kind: str, role_name: str, *subjects: Manifest, kind: str = "RoleBinding"
) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role_name},
        "subjects": list(subjects),
    }


def user(name: str) -> Manifest:
    return {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}


def group(name: str) -> Manifest:
    return {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": name}


READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
NS = f"{RBAC}/namespaces/default"


async def test_a_binding_gives_rights_in_its_namespace_only_and_at_once(server: TestServer) -> None:
    pods = "/api/v1/namespaces/default/pods"
    assert (await server.get(pods, token="joes")).code == 403
    await server.made(f"{NS}/roles", role("reader", READ_PODS))
    await server.made(f"{NS}/rolebindings", binding("joe", "Role", "reader", user("joe")))
    assert (await server.get(pods, token="joes")).code == 200
    assert (await server.get("/api/v1/pods", token="joes")).code == 403
    assert (await server.get("/api/v1/namespaces/kube-system/pods", token="joes")).code == 403
    await server.ask("DELETE", f"{NS}/rolebindings/joe")
    assert (await server.get(pods, token="joes")).code == 403


async def test_groups_get_rights_everywhere_by_cluster_bindings(server: TestServer) -> None:
    made = binding("devs", "ClusterRole", "view", group("dev"), kind="ClusterRoleBinding")
    await server.made(f"{RBAC}/clusterrolebindings", made)
    assert (await server.get("/api/v1/pods", token="joes")).code == 200
    assert (await server.get("/api/v1/secrets", token="joes")).code == 403
    assert (await server.ask("DELETE", "/api/v1/namespaces/default/pods/p", token="joes")).code == 403


async def test_service_accounts_act_with_their_own_rights(server: TestServer) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    await server.made("/api/v1/namespaces/default/serviceaccounts", account)
    token = (await server.made("/api/v1/namespaces/default/serviceaccounts/robot/token", {}))["status"][
        "token"
    ]
    pods = "/api/v1/namespaces/default/pods"
    refused = await server.get(pods, token=token)
    assert 'User "system:serviceaccount:default:robot" cannot list resource "pods"' in refused.message
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": "default"}
    await server.made(f"{NS}/rolebindings", binding("robot", "ClusterRole", "view", subject))
    assert (await server.get(pods, token=token)).code == 200


async def test_aggregated_roles_grow_with_the_roles_that_carry_their_label(server: TestServer) -> None:
    made = binding("devs", "ClusterRole", "view", group("dev"), kind="ClusterRoleBinding")
    await server.made(f"{RBAC}/clusterrolebindings", made)
    queues = "/api/v1/persistentvolumes"
    assert (await server.get(queues, token="joes")).code == 403
    label = {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}
    volumes = {"apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["list"]}
    await server.made(f"{RBAC}/clusterroles", role("more", volumes, kind="ClusterRole", metadata=label))
    assert (await server.get(queues, token="joes")).code == 200


async def test_everybody_may_discover_and_ask_about_themselves(server: TestServer) -> None:
    for path in ("/api", "/apis", "/api/v1", "/apis/apps/v1", "/version"):
        assert (await server.get(path, token="joes")).code == 200
    assert (await server.get("/metrics", token="joes")).code == 403


async def let_joe_manage_roles(server: TestServer, *verbs: str) -> None:
    rules = [
        {
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["*"],
            "verbs": ["create", "update", *verbs],
        },
        READ_PODS,
    ]
    await server.made(f"{NS}/roles", role("manager", *rules))
    await server.made(f"{NS}/rolebindings", binding("manager", "Role", "manager", user("joe")))


DELETE_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}


async def test_nobody_grants_what_they_do_not_hold(server: TestServer) -> None:
    await let_joe_manage_roles(server)
    assert (await server.post(f"{NS}/roles", role("ok", READ_PODS), token="joes")).code == 201
    refused = await server.post(f"{NS}/roles", role("more", DELETE_PODS), token="joes")
    assert refused.code == 403
    assert refused.message == (
        'roles.rbac.authorization.k8s.io "more" is forbidden: user "joe" (groups=["dev" "system:authenticated"]) '
        "is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}'
    )
    bound = await server.post(
        f"{NS}/rolebindings", binding("b", "ClusterRole", "admin", user("x")), token="joes"
    )
    assert bound.code == 403
    fine = await server.post(f"{NS}/rolebindings", binding("b", "Role", "ok", user("x")), token="joes")
    assert fine.code == 201


async def test_escalate_and_bind_lift_the_check(server: TestServer) -> None:
    await let_joe_manage_roles(server, "escalate", "bind")
    assert (await server.post(f"{NS}/roles", role("more", DELETE_PODS), token="joes")).code == 201
    made = binding("b", "ClusterRole", "admin", user("x"))
    assert (await server.post(f"{NS}/rolebindings", made, token="joes")).code == 201


async def test_a_binding_to_a_role_that_is_not_there_is_refused_to_those_who_cannot_prove_it(
    server: TestServer,
) -> None:
    await let_joe_manage_roles(server)
    refused = await server.post(f"{NS}/rolebindings", binding("b", "Role", "none", user("x")), token="joes")
    assert refused.code == 404


PARTS = st.sets(st.sampled_from(["a", "b", "*"]), min_size=1).map(frozenset)
RULES = st.builds(Rule, PARTS, PARTS, PARTS, st.sets(st.sampled_from(["n", "m"])).map(frozenset))
ACTIONS = st.builds(
    Action,
    st.sampled_from("ab"),
    st.sampled_from("ab"),
    st.sampled_from("ab"),
    name=st.sampled_from(["", "n", "m"]),
)


@given(st.lists(RULES, max_size=3), st.lists(RULES, max_size=3), ACTIONS)
def test_who_holds_everything_wanted_can_do_everything_wanted(
    wanted: list[Rule], held: list[Rule], action: Action
) -> None:
    if not missing(wanted, held) and any(rule.allows(action) for rule in wanted):
        assert any(rule.allows(action) for rule in held)


@given(st.lists(RULES, max_size=3))
def test_nobody_lacks_what_they_hold(held: list[Rule]) -> None:
    assert missing(held, held) == []
