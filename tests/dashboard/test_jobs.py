"""The list of jobs and the page of a job, in a browser, against a running cluster."""

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.dashboard.cluster import WITHIN, UserCluster, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.slow
CLUSTER_FLAGS = ("--nodes", "4", "--node", "cpu=8,memory=32Gi")
MILLISECONDS = WITHIN * 1000
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: {name}
  annotations: {{volcano.sh/user: {user}}}
spec:
  queue: {queue}
  schedulerName: volcano
  minAvailable: {replicas}
  tasks:
  - name: worker
    replicas: {replicas}
    template:
      spec:
        restartPolicy: Never
        containers:
        - name: main
          image: busybox
          command: [sleep, "3600"]
          resources: {{requests: {{cpu: "{cpu}"}}, limits: {{cpu: "{cpu}"}}}}
"""


@pytest.fixture(scope="module", autouse=True)
def jobs(cluster: UserCluster) -> None:
    """Two jobs that run, one that is too big, and one that waits for room."""
    cluster.run("vcctl", "queue", "create", "--name", "research", "--weight", "1")
    create(cluster, "small", queue="default", user="alice", replicas=2, cpu=1)
    create(cluster, "big", queue="research", user="bob", replicas=3, cpu=8)
    create(cluster, "giant", queue="research", user="bob", replicas=1, cpu=100)
    eventually(lambda: cluster.phase("big") == "Running" and cluster.phase("small") == "Running", "jobs run")
    create(cluster, "waits", queue="default", user="alice", replicas=2, cpu=8)


def create(cluster: UserCluster, name: str, **values: Any) -> None:
    path = cluster.home / f"{name}.yaml"
    path.write_text(JOB.format(name=name, **values))
    cluster.run("vcctl", "job", "run", "-f", str(path))


def row(page: "Page", name: str) -> "Locator":
    return page.locator("tbody tr", has=page.get_by_role("link", name=name, exact=True))


def shown(page: "Page") -> set[str]:
    return {text.strip() for text in page.locator("tbody td:nth-child(2) a").all_inner_texts()}


def wait_until(page: "Page", names: set[str]) -> None:
    eventually(lambda: shown(page) == names, f"the list shows {names}")


def open_jobs(page: "Page", query: str = "") -> None:
    page.goto(f"/jobs{query}")
    page.get_by_role("heading", name="Jobs").wait_for()


def test_the_list_agrees_with_vcctl(page: "Page", cluster: UserCluster) -> None:
    open_jobs(page)
    listed = {item["metadata"]["name"]: item for item in cluster.objects("job", "list")["items"]}
    wait_until(page, set(listed))
    for name, item in listed.items():
        text = row(page, name).inner_text()
        assert item["status"]["state"]["phase"] in text
        assert item["spec"]["queue"] in text
        assert item["metadata"]["annotations"]["volcano.sh/user"] in text
    code = cluster.objects("explain", "job", "giant")["diagnosis"]["code"]
    assert code in row(page, "giant").inner_text()


def test_filters_sort_and_groups_are_in_the_address(page: "Page") -> None:
    open_jobs(page, "?user=bob&sort=-name")
    wait_until(page, {"giant", "big"})
    order = page.locator("tbody td:nth-child(2) a").all_inner_texts()
    assert [text.strip() for text in order] == ["giant", "big"]
    page.keyboard.press("/")
    page.keyboard.type("gian")
    wait_until(page, {"giant"})
    page.wait_for_url(re.compile("text=gian"))
    page.reload()
    wait_until(page, {"giant"})
    open_jobs(page, "?group=queue")
    page.locator(".volcano-section", has_text="research").wait_for()
    page.get_by_role("button", name=re.compile("^Queue research: ")).click()
    wait_until(page, {"giant", "big"})
    page.wait_for_url(re.compile("queue=research"))


def test_a_table_is_sorted_with_the_keyboard(page: "Page") -> None:
    open_jobs(page, "?user=bob")
    wait_until(page, {"giant", "big"})
    page.locator("th.sortable", has_text="Name").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("sort=name"))
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("sort=-name"))


def test_several_jobs_are_suspended_resumed_and_deleted_after_a_question(
    page: "Page", cluster: UserCluster
) -> None:
    for name in ("bulk-0", "bulk-1"):
        create(cluster, name, queue="default", user="carol", replicas=1, cpu=0.1)
    open_jobs(page, "?user=carol")
    wait_until(page, {"bulk-0", "bulk-1"})
    eventually(lambda: cluster.phase("bulk-1") == "Running", "the jobs run")
    for action, phase in (("Suspend", "Aborted"), ("Resume", "Running")):
        page.locator("thead .q-checkbox").click()
        page.get_by_role("button", name=f"{action} 2", exact=True).click(timeout=MILLISECONDS)
        assert cluster.phase("bulk-0") != phase, "it asks first"
        page.get_by_role("button", name=f"{action} 2 jobs").click()
        for name in ("bulk-0", "bulk-1"):
            row(page, name).get_by_text(phase, exact=True).wait_for(timeout=MILLISECONDS)
            assert cluster.phase(name) == phase
    page.locator("thead .q-checkbox").click()
    page.get_by_role("button", name="Delete 2", exact=True).click()
    page.get_by_role("button", name="Cancel").click()
    assert cluster.phase("bulk-0") == "Running"
    page.get_by_role("button", name="Delete 2", exact=True).click()
    page.get_by_role("button", name="Delete 2 jobs").click()
    wait_until(page, set())


def test_the_grid_has_each_pod_and_a_pod_says_why_it_has_its_node(page: "Page", cluster: UserCluster) -> None:
    page.goto("/jobs/default/big")
    cells = page.locator("button[data-pod]")
    eventually(lambda: cells.count() == 3, "one cell for each pod")
    pods = cluster.objects("pod", "list", "-j", "big")["items"]
    for pod in pods:
        label = cells.and_(page.locator(f"[data-pod={pod['metadata']['name']}]")).get_attribute("aria-label")
        assert label == f"{pod['metadata']['name']}: Running on {pod['spec']['nodeName']}"
    cells.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="big-worker-1").wait_for()
    page.wait_for_url(re.compile("pod=big-worker-1"))
    page.get_by_role("button", name="Why this node?").click()
    page.get_by_text(re.compile("big-worker-1 runs on node-")).wait_for(timeout=MILLISECONDS)
    page.get_by_role("cell", name="its node", exact=True).wait_for()
    page.get_by_role("link", name="Show pod big-worker-2").click()
    page.get_by_role("heading", name="big-worker-2").wait_for()
    page.get_by_role("button", name="Why this node?").wait_for()


def test_the_diagnosis_agrees_with_explain(page: "Page", cluster: UserCluster) -> None:
    explained = cluster.objects("explain", "job", "waits")
    page.goto("/jobs/default/waits?tab=diagnosis")
    page.get_by_text(explained["summary"]).wait_for(timeout=MILLISECONDS)
    page.get_by_text(f"{explained['diagnosis']['code']} ({explained['diagnosis']['class']})").wait_for()
    for step in explained["steps"]:
        page.locator(".volcano-step").get_by_text(step["step"], exact=True).wait_for()
    page.get_by_text("Nodes: why each node does not take its next pod").click()
    eventually(
        lambda: "node-3" in page.locator(".q-expansion-item").first.inner_text(), "the nodes by reason"
    )


def test_a_waiting_job_starts_on_the_page_when_room_is_made(page: "Page", cluster: UserCluster) -> None:
    page.goto("/jobs/default/waits")
    page.get_by_text("InsufficientResources").first.wait_for()
    assert cluster.phase("waits") == "Pending"
    cluster.run("vcctl", "job", "delete", "-N", "big")
    cells = page.locator("button[data-pod][aria-label*='Running on node-']")
    eventually(lambda: cells.count() == 2, "both pods run")
    assert page.get_by_text("InsufficientResources").count() == 0
    page.get_by_role("tab", name="Timeline").click()
    bars = page.locator(".volcano-timeline-line")
    eventually(lambda: bars.count() == 2, "a line for each pod")
    assert "Waiting for a node" in str(bars.first.locator("button").get_attribute("aria-label"))
    create(cluster, "big", queue="research", user="bob", replicas=1, cpu=8)


def test_events_and_yaml_are_those_of_the_api_server(page: "Page", cluster: UserCluster) -> None:
    page.goto("/jobs/default/small?tab=events")
    page.get_by_text("Successfully assigned default/small-worker-0").wait_for(timeout=MILLISECONDS)
    page.get_by_role("tab", name="YAML").click()
    uid = cluster.run("vcctl", "job", "view", "-N", "small", "-o", "jsonpath={.metadata.uid}").strip()
    page.locator(".cm-content").get_by_text(uid).first.wait_for(timeout=MILLISECONDS)


def test_a_job_that_does_not_exist_yet_appears(page: "Page", cluster: UserCluster) -> None:
    page.goto("/jobs/default/later")
    page.get_by_text("There is no job later in namespace default.").wait_for()
    create(cluster, "later", queue="default", user="alice", replicas=1, cpu=0.1)
    page.get_by_role("tab", name="Timeline").wait_for(timeout=MILLISECONDS)
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete 1 job").click()
    page.get_by_text("This job does not exist any more.").wait_for(timeout=MILLISECONDS)


def test_a_question_stays_while_the_job_changes(page: "Page", cluster: UserCluster) -> None:
    create(cluster, "changes", queue="default", user="alice", replicas=1, cpu=0.1)
    eventually(lambda: cluster.phase("changes") == "Running", "the job runs")
    page.goto("/jobs/default/changes")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete 1 job").wait_for()
    cluster.run("vcctl", "job", "suspend", "-N", "changes")
    page.get_by_role("status").get_by_text("Aborted").wait_for(timeout=MILLISECONDS)
    page.get_by_role("button", name="Delete 1 job").click()
    page.get_by_text("Deleted default/changes").wait_for(timeout=MILLISECONDS)
    page.get_by_text("This job does not exist any more.").wait_for(timeout=MILLISECONDS)
