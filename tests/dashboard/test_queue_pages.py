"""The pages of queues in a browser, against a running cluster."""

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.dashboard.cluster import UserCluster, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.slow
CLUSTER_FLAGS = ("--nodes", "4", "--node", "cpu=8,memory=32Gi,nvidia.com/gpu=4")


@pytest.fixture(scope="module", autouse=True)
def queues(cluster: UserCluster) -> None:
    cluster.run("vcctl", "queue", "create", "research", "--weight", "3")
    cluster.run("vcctl", "queue", "create", "vision", "--parent", "research", "--capability", "cpu=16")
    cluster.run("vcctl", "queue", "create", "spare")
    size = "cpu=2,memory=1Gi"
    cluster.run("vcctl", "job", "run", "-N", "train", "-r", "2", "-m", "2", "-R", size, "-L", size)


def tree(cluster: UserCluster) -> dict[str, Any]:
    """What `vcctl queue tree` prints, by name."""
    found, pending = {}, list(cluster.objects("queue", "tree"))
    while pending:
        each = pending.pop()
        found[each["name"]] = each
        pending += each["children"]
    return found


def row(page: "Page", name: str) -> "Locator":
    return page.locator(f'[role=row][data-name="{name}"]')


def test_the_tree_agrees_with_the_command_line(page: "Page", cluster: UserCluster) -> None:
    eventually(lambda: tree(cluster)["default"]["allocated"].get("cpu") == 4.0, "the job runs")
    page.goto("/queues")
    for name, printed in tree(cluster).items():
        cpu = row(page, name).locator("[role=img]").first
        cpu.wait_for()
        held, due = printed["allocated"].get("cpu", 0.0), printed["deserved"]["cpu"]

        def agrees(cpu: "Locator" = cpu, held: float = held, due: float = due) -> bool:
            label = cpu.get_attribute("aria-label") or ""
            return label.startswith(f"cpu: {held:g} allocated, {round(due, 1):g} deserved")

        eventually(agrees, f"{name}: {held} of {due}", 20)
        assert printed["state"] in row(page, name).inner_text()
        assert f"weight {printed['weight']}" in row(page, name).inner_text()
    assert "capability 16" in (
        row(page, "vision").locator("[role=img]").first.get_attribute("aria-label") or ""
    )


def test_a_queue_is_collapsed_with_the_keyboard_and_keeps_the_focus(page: "Page") -> None:
    page.goto("/queues")
    row(page, "vision").wait_for()
    toggle = page.get_by_role("button", name="Collapse research")
    toggle.focus()
    page.keyboard.press("Enter")
    row(page, "vision").wait_for(state="detached")
    page.wait_for_url(re.compile("collapsed=research"))
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Expand research"
    page.reload()
    row(page, "research").wait_for()
    assert row(page, "vision").count() == 0


def test_the_filter_shows_matches_with_their_ancestors(page: "Page") -> None:
    page.goto("/queues")
    row(page, "spare").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("visi")
    row(page, "spare").wait_for(state="detached")
    assert [each.get_attribute("data-name") for each in page.locator("[role=row][data-name]").all()] == [
        "root", "research", "vision",
    ]  # fmt: skip
    page.wait_for_url(re.compile("text=visi"))


def test_a_queue_is_closed_opened_and_gets_another_weight(page: "Page", cluster: UserCluster) -> None:
    page.goto("/queues/spare")
    page.get_by_role("button", name="Close", exact=True).click()
    page.get_by_role("button", name="Close queue").click()
    eventually(lambda: tree(cluster)["spare"]["state"] == "Closed", "the queue is closed")
    page.get_by_role("button", name="Open", exact=True).click()
    eventually(lambda: tree(cluster)["spare"]["state"] == "Open", "the queue is open")
    page.get_by_role("button", name="Change weight").click()
    field = page.get_by_role("spinbutton", name="Weight")
    field.fill("5")
    page.get_by_role("dialog").get_by_role("button", name="Change weight").click()
    eventually(lambda: tree(cluster)["spare"]["weight"] == 5, "the queue has another weight")
    page.get_by_text("weight 5,").wait_for()


def test_the_share_of_a_queue_is_explained_as_on_the_command_line(page: "Page", cluster: UserCluster) -> None:
    page.goto("/queues/default")
    table = page.get_by_role("region", name="Share step by step")
    table.wait_for()
    printed = cluster.objects("explain", "queue", "default")
    cpu = next(each for each in printed["resources"] if each["resource"] == "cpu")
    cells = table.get_by_role("row").filter(has=page.get_by_role("cell", name="cpu", exact=True))
    shown = cells.first.get_by_role("cell").all_inner_texts()
    assert shown == [
        str(cpu[name])
        for name in ("resource", "cluster", "weight", "byWeight", "limit", "requested", "guarantee", "deserved",
                     "allocated", "borrowed", "lent")
    ]  # fmt: skip
    page.get_by_role("link", name="train", exact=True).wait_for()


def test_a_queue_that_does_not_exist_is_named(page: "Page") -> None:
    page.goto("/queues/nowhere")
    page.get_by_text("There is no queue nowhere").wait_for()
