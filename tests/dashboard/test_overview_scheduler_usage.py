"""The overview, the scheduler and usage in a browser agree with what `vcctl` prints."""

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.dashboard.cluster import UserCluster, eventually, in_thread
from volcano.base.clock import SystemClock
from volcano.kube.api.kinds import PRIORITY_CLASS
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import load_client_config

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
CLUSTER_FLAGS = (
    "--nodes", "2", "--node", "cpu=8,memory=32Gi,nvidia.com/gpu=4", "--scheduler-conf", "preempt",
)  # fmt: skip
WITHIN = 60_000  # milliseconds


@pytest.fixture(scope="module", autouse=True)
def jobs(cluster: UserCluster) -> None:
    """A job that ended, one of high priority that made room for itself, and one that can never start."""
    for name, value in (("low", 1), ("high", 100)):
        create_class(cluster, name, value)
    run(cluster, "ended", gpu=1, seconds=2)
    eventually(lambda: cluster.phase("ended") == "Completed", "the first job completes")
    run(cluster, "filler", replicas=2, minimum=1, gpu=4, priority="low")
    eventually(lambda: cluster.phase("filler") == "Running", "the second job runs")
    run(cluster, "urgent", gpu=4, priority="high")
    eventually(lambda: cluster.phase("urgent") == "Running", "the third job runs after an eviction")
    run(cluster, "huge", cpu="64")


def test_the_overview_counts_what_vcctl_counts(page: "Page", cluster: UserCluster) -> None:
    page.goto("/")
    running = [each for each in listed(cluster) if each["status"]["state"]["phase"] == "Running"]
    page.get_by_text(f"{len(running)} running", exact=True).wait_for(timeout=WITHIN)
    page.get_by_text("8 of 8", exact=True).wait_for(timeout=WITHIN)  # GPUs
    chart = page.locator("[aria-label^='Requested part of each resource']")
    eventually(
        lambda: "GPU 100 %" in (chart.get_attribute("aria-label") or ""), "the chart has the use of GPUs"
    )
    page.get_by_text("1 completed", exact=False).wait_for(timeout=WITHIN)


def test_a_job_that_can_never_start_needs_attention(page: "Page") -> None:
    page.goto("/")
    item = page.get_by_role("listitem").filter(has_text="ClusterTooSmall")
    item.wait_for(timeout=WITHIN)
    assert item.get_by_role("img", name="Error").count() == 1
    item.get_by_role("link", name="default/huge").click()
    page.wait_for_url("**/jobs/default/huge")


def test_cycles_are_those_of_vcctl(page: "Page", cluster: UserCluster) -> None:
    page.goto("/scheduler")
    newest = page.locator("table tbody tr").first
    newest.wait_for(timeout=WITHIN)
    number = newest.locator("td").first.inner_text().strip()
    told = cluster.objects("explain", "cycle")["cycles"]
    assert number in {str(each["number"]) for each in told}
    placing = next(each for each in told if each["placed"])
    page.goto(f"/scheduler/cycles/{placing['number']}")
    cycle = cluster.objects("explain", "cycle", str(placing["number"]))["cycle"]
    node = next(iter(cycle["placed"][0]["pods"].values()))
    page.get_by_role("cell", name=node).first.wait_for(timeout=WITHIN)


def test_an_eviction_is_shown_with_its_beneficiary(page: "Page") -> None:
    page.goto("/scheduler?tab=evictions")
    row = page.locator("table tbody tr").filter(has_text="default/filler-worker").first
    row.wait_for(timeout=WITHIN)
    assert "preempt" in row.inner_text()
    assert row.get_by_role("link", name="default/urgent").get_attribute("href") == "/jobs/default/urgent"


def test_a_pod_is_explained_as_vcctl_explains_it(page: "Page", cluster: UserCluster) -> None:
    page.goto("/scheduler?tab=pod")
    page.get_by_label("Pod (namespace/name)").fill("default/urgent-worker-0")
    page.get_by_role("button", name="Explain").click()
    told = cluster.objects("explain", "pod", "-N", "urgent-worker-0")
    page.get_by_text(told["summary"]).wait_for(timeout=WITHIN)
    page.get_by_role("columnheader", name="nodeorder").wait_for(timeout=WITHIN)


def test_a_configuration_is_checked_and_compared(page: "Page") -> None:
    page.goto("/scheduler?tab=configuration")
    editor = page.locator(".cm-content")
    editor.wait_for(timeout=WITHIN)
    page.get_by_role("cell", name="proportion").first.wait_for(timeout=WITHIN)
    editor.fill('actions: "alocate"\n')
    page.get_by_role("button", name="Check").click()
    page.get_by_text("Line 1: unknown action 'alocate'").wait_for(timeout=WITHIN)
    editor.fill('actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n')
    page.get_by_role("button", name="Show what it would change").click()
    page.get_by_text("The configuration is valid.").wait_for(timeout=WITHIN)
    page.get_by_text("with both configurations.").wait_for(timeout=WITHIN)


def test_usage_is_that_of_vcctl(page: "Page", cluster: UserCluster) -> None:
    page.goto("/usage?by=job&range=day")
    row = page.locator("table tbody tr").filter(has_text="ended")
    row.wait_for(timeout=WITHIN)
    with page.expect_download(timeout=WITHIN) as download:
        page.get_by_role("button", name="Download CSV").click()
    saved = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    told = list(csv.DictReader(io.StringIO(cluster.run("vcctl", "usage", "--by", "job", "-o", "csv"))))
    assert {each["job"] for each in saved} == {each["job"] for each in told}
    # A job that has ended does not use more as time goes on.
    assert [each for each in saved if each["job"] == "ended"] == [
        each for each in told if each["job"] == "ended"
    ]


def test_prices_add_costs(page: "Page") -> None:
    page.goto("/usage?by=job&range=day")
    page.get_by_role("button", name="Prices").click()
    page.get_by_label("YAML").fill("prices: {gpu: -1}")
    page.get_by_role("button", name="Use prices").click()
    page.get_by_role("alert").filter(has_text="write a number of 0 or more").wait_for(timeout=WITHIN)
    page.get_by_label("YAML").fill("currency: EUR\nprices: {gpu: 3600}")
    page.get_by_role("button", name="Use prices").click()
    page.get_by_role("columnheader", name="Cost EUR").wait_for(timeout=WITHIN)


# the cluster


def run(
    cluster: UserCluster,
    name: str,
    *,
    replicas: int = 1,
    minimum: int = 1,
    cpu: str = "1",
    gpu: int = 0,
    seconds: int = 3600,
    priority: str = "",
) -> None:
    requests = {"cpu": cpu, **({"nvidia.com/gpu": str(gpu)} if gpu else {})}
    template = {
        "metadata": {"annotations": {"volcano.sh/sim-duration": f"{seconds}s"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {"name": "c", "image": "busybox", "resources": {"requests": requests, "limits": requests}}
            ],
        },
    }
    spec: dict[str, Any] = {
        "schedulerName": "volcano",
        "minAvailable": minimum,
        "tasks": [{"name": "worker", "replicas": replicas, "template": template}],
        **({"priorityClassName": priority} if priority else {}),
    }
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    cluster.run("vcctl", "job", "run", "-f", "-", stdin=json.dumps(job))


def listed(cluster: UserCluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.objects("job", "list")["items"]
    return found


def create_class(cluster: UserCluster, name: str, value: int) -> None:
    async def create() -> None:
        client = connect(load_client_config({}, kubeconfig=str(cluster.kubeconfig)), SystemClock())
        manifest = {
            "apiVersion": PRIORITY_CLASS.api_version, "kind": PRIORITY_CLASS.kind, "metadata": {"name": name},
            "value": value,
        }  # fmt: skip
        try:
            await client.create(PRIORITY_CLASS, manifest)
        finally:
            await client.close()

    in_thread(create())
