"""The pages of nodes in a browser, against a running cluster."""

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.dashboard.cluster import UserCluster, eventually, in_thread
from volcano.base.clock import SystemClock
from volcano.kube.api.kinds import HYPER_NODE
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import load_client_config

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
CLUSTER_FLAGS = (
    "--nodes", "4", "--node", "cpu=8,memory=32Gi,nvidia.com/gpu=4", "--topology", "rack=2",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def workload(cluster: UserCluster) -> None:
    size = "cpu=2,nvidia.com/gpu=3"
    cluster.run("vcctl", "job", "run", "-N", "train", "-r", "3", "-m", "3", "-R", size, "-L", size)
    eventually(lambda: topology(cluster)["used"] == 9.0, "the job runs")


def topology(cluster: UserCluster) -> Any:
    return cluster.objects("topology")["tree"]


def cells(page: "Page") -> dict[str, str]:
    """Labels of the cells by the name of their node."""
    labels = [each.get_attribute("aria-label") or "" for each in page.locator("a.volcano-cell").all()]
    return {label.partition(":")[0]: label for label in labels}


def test_the_heat_map_agrees_with_the_topology_of_the_command_line(
    page: "Page", cluster: UserCluster
) -> None:
    page.goto("/nodes")
    page.locator("a.volcano-cell").first.wait_for()
    for rack in topology(cluster)["children"]:
        group = page.locator(f'section[aria-label="{rack["name"]}"]')
        assert f"{rack['used']:g}/8 gpu" in group.inner_text()
        shown = [each.get_attribute("aria-label") or "" for each in group.locator("a.volcano-cell").all()]
        assert [label.partition(":")[0] for label in shown] == rack["nodes"]
    assert sorted(re.findall(r"(\d+) %", " ".join(cells(page).values()))) == ["0", "75", "75", "75"]


def test_free_devices_are_counted_by_the_pods_that_fit(page: "Page") -> None:
    page.goto("/nodes")
    page.get_by_text("7 gpu are free on nodes that take pods.").wait_for()
    table = page.get_by_role("region", name="Room for pods by size")
    assert table.get_by_role("row").last.get_by_role("cell").all_inner_texts() == ["4", "1", "1"]


def test_cells_are_reached_with_the_keyboard(page: "Page") -> None:
    page.goto("/nodes")
    first = page.locator("a.volcano-cell").first
    first.wait_for()
    first.focus()
    page.keyboard.press("ArrowRight")
    second = page.evaluate("document.activeElement.getAttribute('href')")
    assert second == page.locator("a.volcano-cell").nth(1).get_attribute("href")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(second))


def test_a_node_shows_the_owners_of_its_devices(page: "Page") -> None:
    page.goto("/nodes")
    page.locator("a.volcano-cell").first.wait_for()
    name = next(name for name, label in cells(page).items() if "75 %" in label)
    page.goto(f"/nodes/{name}")
    table = page.get_by_role("region", name="Devices and their owners")
    owners = [each.get_by_role("cell").last.inner_text() for each in table.get_by_role("row").all()[1:]]
    assert len({owner for owner in owners if owner != "free"}) == 1
    assert owners.count("free") == 1
    assert "default/train" in owners[0]


def test_a_node_is_cordoned_and_uncordoned(page: "Page", cluster: UserCluster) -> None:
    page.goto("/nodes/node-0")
    page.get_by_role("button", name="Cordon", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cordon").click()
    eventually(lambda: topology(cluster)["usableNodes"] == 3, "the node is cordoned")
    page.get_by_text("Ready,SchedulingDisabled").wait_for()
    page.get_by_role("button", name="Uncordon").click()
    eventually(lambda: topology(cluster)["usableNodes"] == 4, "the node takes pods")


def test_a_drained_node_has_no_pods_left(page: "Page", cluster: UserCluster) -> None:
    page.goto("/nodes")
    page.locator("a.volcano-cell").first.wait_for()
    name = next(name for name, label in cells(page).items() if "75 %" in label)
    page.goto(f"/nodes/{name}")
    page.get_by_role("button", name="Drain", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("evict 1 pod of 1 job: default/train?").wait_for()
    dialog.get_by_role("button", name="Drain", exact=True).click()
    page.get_by_text(f"Node {name} is drained: 1 of 1 pods are gone.").wait_for(timeout=60_000)
    page.goto("/nodes")
    page.locator(f'a.volcano-cell[aria-label="{name}: 0 % of gpu used, cordoned"]').wait_for()
    eventually(lambda: topology(cluster)["usableNodes"] == 3, "the node is cordoned")


def test_the_grouping_is_in_the_address_and_new_tiers_are_offered(page: "Page", cluster: UserCluster) -> None:
    page.goto("/nodes?group=pool")
    page.locator('section[aria-label="node"]').wait_for()
    in_thread(_add_spine(cluster))
    page.get_by_label("Group by").click()
    page.get_by_role("option", name="HyperNode, tier 2").click()
    page.locator('section[aria-label="spine-0"]').wait_for()
    page.wait_for_url(re.compile("group=tier-2"))


async def _add_spine(cluster: UserCluster) -> None:
    client = connect(load_client_config({}, kubeconfig=str(cluster.kubeconfig)), SystemClock())
    members = [
        {"type": "HyperNode", "selector": {"exactMatch": {"name": name}}} for name in ("rack-0", "rack-1")
    ]
    spine = {"metadata": {"name": "spine-0"}, "spec": {"tier": 2, "members": members}}
    try:
        await client.create(HYPER_NODE, spine)
    finally:
        await client.close()
