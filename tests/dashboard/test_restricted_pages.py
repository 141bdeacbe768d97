"""Queues and nodes for viewers with few rights."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.dashboard.cluster import UserCluster, in_thread
from tests.dashboard.test_access import dashboard, named, read
from volcano.base.clock import SystemClock
from volcano.kube.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import load_client_config

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    OpenAs = Callable[[str, str], Page]

pytestmark = pytest.mark.slow
CLUSTER_FLAGS = ("--nodes", "2", "--node", "cpu=8,memory=32Gi")
RBAC = "rbac.authorization.k8s.io/v1"
# User `auditor` may read queues and nodes, user `operator` may also change nodes; `stranger` may nothing.
RIGHTS = {
    "auditor": [("scheduling.volcano.sh", "queues", ["get", "list"]), ("", "nodes", ["get", "list"])],
    "operator": [("", "nodes", ["get", "list", "patch"])],
}


@pytest.fixture(scope="module")
def url(cluster: UserCluster) -> Iterator[str]:
    in_thread(_grant(cluster))
    with dashboard(cluster, "--auth", "proxy") as url:
        yield url


async def _grant(cluster: UserCluster) -> None:
    client = connect(load_client_config({}, kubeconfig=str(cluster.kubeconfig)), SystemClock())
    try:
        for user, rights in RIGHTS.items():
            rules = [
                {"apiGroups": [group], "resources": [resource], "verbs": verbs}
                for group, resource, verbs in rights
            ]
            await client.create(CLUSTER_ROLE, {**named(RBAC, "ClusterRole", user), "rules": rules})
            subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
            binding = named(RBAC, "ClusterRoleBinding", user)
            await client.create(
                CLUSTER_ROLE_BINDING, {**binding, "subjects": [subject], "roleRef": reference}
            )
    finally:
        await client.close()


@pytest.fixture
def open_as(browser: "Browser", url: str) -> "Iterator[OpenAs]":
    contexts = []

    def open_page(user: str, path: str) -> "Page":
        context = browser.new_context(base_url=url, extra_http_headers={"X-Forwarded-User": user})
        contexts.append(context)
        page = context.new_page()
        page.goto(path)
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/queues", "You may not list queues."),
        ("/queues/default", "There is no queue default, or you may not list queues."),
        ("/nodes", "You may not list nodes."),
        ("/nodes/node-0", "There is no node node-0, or you may not list nodes."),
    ],
)
def test_a_viewer_without_rights_is_told_so(url: str, path: str, sentence: str) -> None:
    code, text = read(f"{url}{path}", X_Forwarded_User="stranger")
    assert code == 200
    assert sentence in text
    assert "node-1" not in text


def test_a_viewer_who_may_only_read_gets_no_buttons(open_as: "OpenAs") -> None:
    page = open_as("auditor", "/queues/default")
    page.get_by_text("There is no explanation:").wait_for()
    for name in ("Open", "Close", "Change weight"):
        assert page.get_by_role("button", name=name, exact=True).count() == 0
    page = open_as("auditor", "/nodes/node-0")
    page.get_by_text("Pods of namespaces in which you may not list them are not shown.").wait_for()
    for name in ("Cordon", "Uncordon", "Drain"):
        assert page.get_by_role("button", name=name, exact=True).count() == 0


def test_a_viewer_who_may_change_nodes_and_not_evict_can_cordon_only(open_as: "OpenAs") -> None:
    page = open_as("operator", "/nodes/node-0")
    page.get_by_role("button", name="Cordon", exact=True).wait_for()
    assert page.get_by_role("button", name="Drain", exact=True).count() == 0
