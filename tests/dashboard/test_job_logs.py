"""Logs and the shell on the page of a job, in a browser, with pods that run on this host."""

import re
from typing import TYPE_CHECKING

import pytest

from tests.dashboard.cluster import WITHIN, UserCluster, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
CLUSTER_FLAGS = ("--local-nodes", "1", "--runtime", "plain")
MILLISECONDS = WITHIN * 1000
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: talks}
spec:
  schedulerName: volcano
  minAvailable: 2
  tasks:
  - name: worker
    replicas: 2
    template:
      spec:
        restartPolicy: Never
        containers:
        - name: main
          image: busybox
          command: [sh, -c, 'i=0; while true; do echo "<b>line $i</b> of $HOSTNAME"; i=$((i+1)); sleep 1; done']
          resources: {requests: {cpu: 50m}}
        - name: side
          image: busybox
          command: [sh, -c, 'echo from the side; sleep 3600']
          resources: {requests: {cpu: 50m}}
"""


@pytest.fixture(scope="module", autouse=True)
def job(cluster: UserCluster) -> None:
    path = cluster.home / "job.yaml"
    path.write_text(JOB)
    cluster.run("vcctl", "job", "run", "-f", str(path))
    eventually(lambda: cluster.phase("talks") == "Running", "the job runs")


def test_logs_of_all_pods_are_followed(page: "Page") -> None:
    page.goto("/jobs/default/talks?tab=logs")
    log = page.get_by_role("log")
    for pod in ("worker-0", "worker-1"):
        log.get_by_text(pod, exact=True).first.wait_for(timeout=MILLISECONDS)
    lines = log.locator("> div").count()
    eventually(lambda: log.locator("> div").count() > lines + 1, "more lines come")
    texts = [text.replace("\n", "") for text in log.locator("> div").all_inner_texts()]
    assert len(texts) == len(set(texts)), "each line once"
    assert "<b>line 0</b>" in texts[0]
    assert log.locator("b").count() == 0, "lines are text"


def test_one_pod_and_another_container_can_be_chosen(page: "Page") -> None:
    page.goto("/jobs/default/talks?tab=logs&pod=talks-worker-1")
    log = page.get_by_role("log")
    log.get_by_text("line 0").wait_for(timeout=MILLISECONDS)
    assert log.locator(".volcano-log-source").count() == 0, "one source needs no name"
    page.get_by_label("Container").click()
    page.get_by_role("option", name="All containers").click()
    log.get_by_text("from the side").wait_for(timeout=MILLISECONDS)
    assert set(log.locator(".volcano-log-source").all_inner_texts()) == {"worker-1/main", "worker-1/side"}


def test_a_shell_runs_commands_in_the_container(page: "Page") -> None:
    page.goto("/jobs/default/talks?tab=shell&pod=talks-worker-1")
    page.get_by_role("button", name="Connect").click()
    page.get_by_text("Connected to main of talks-worker-1.").wait_for(timeout=MILLISECONDS)
    page.locator(".xterm-helper-textarea").focus()
    page.keyboard.type("echo $((6*7)) in $HOSTNAME\n")
    page.locator(".xterm-rows").get_by_text("42 in talks-worker-1").first.wait_for(timeout=MILLISECONDS)
    page.keyboard.type("exit 3\n")
    page.get_by_text(re.compile("The command has ended: .*3")).wait_for(timeout=MILLISECONDS)
    page.get_by_role("button", name="Connect").wait_for()


def test_endless_output_does_not_fill_the_memory_of_the_dashboard(page: "Page", cluster: UserCluster) -> None:
    """Output waits in the container until the browser has drawn what it got."""
    page.goto("/jobs/default/talks?tab=shell&pod=talks-worker-0")
    page.get_by_role("button", name="Connect").click()
    page.get_by_text("Connected to main of talks-worker-0.").wait_for(timeout=MILLISECONDS)
    page.locator(".xterm-helper-textarea").focus()
    before = memory(cluster)
    page.keyboard.type("while true; do seq 1 10000; done\n")
    page.wait_for_timeout(4000)
    assert memory(cluster) - before < 50 * 2**20
    page.get_by_role("button", name="Disconnect").click()
    page.get_by_role("button", name="Connect", exact=True).wait_for(timeout=MILLISECONDS)


def memory(cluster: UserCluster) -> int:
    """Resident bytes of the dashboard's process."""
    from pathlib import Path

    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            if b"dashboard" in words and any(str(cluster.home).encode() in word for word in words):
                return int((path / "statm").read_text().split()[1]) * 4096
        except OSError:
            continue
    raise AssertionError("the dashboard does not run")
