"""Pods that were deleted, on the timeline of a job, and devices of a pod."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.dashboard.cluster import WITHIN, UserCluster, eventually, in_thread
from tests.dashboard.test_access import dashboard, named
from volcano.base.clock import SystemClock
from volcano.kube.api.kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, RESOURCE_CLAIM_TEMPLATE
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import load_client_config

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow
CLUSTER_FLAGS = ("--nodes", "2", "--node", "cpu=8,memory=32Gi,nvidia.com/gpu=4,dra=gpu.example.com:4")
MILLISECONDS = WITHIN * 1000
RBAC = "rbac.authorization.k8s.io/v1"
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: NAME}
spec:
  schedulerName: volcano
  minAvailable: 1
  maxRetry: 2
  policies: [{event: PodFailed, action: RestartJob}]
  tasks:
  - name: worker
    replicas: 1
    template:
      metadata: {annotations: {volcano.sh/sim-duration: DURATION, volcano.sh/sim-exit-code: "1"}}
      spec:
        restartPolicy: Never
        SPEC
        containers: [{name: main, image: train, resources: RESOURCES}]
"""


def submit(
    cluster: UserCluster, name: str, duration: str, *, spec: str = "", resources: str = "{requests: {cpu: 1}}"
) -> None:
    text = JOB.replace("NAME", name).replace("DURATION", duration).replace("SPEC", spec)
    cluster.run("vcctl", "job", "run", "-f", "-", stdin=text.replace("RESOURCES", resources))


@pytest.fixture(scope="module")
def retried(cluster: UserCluster) -> UserCluster:
    """Job `retried` failed for the last time."""
    submit(cluster, "retried", "1s")
    eventually(lambda: cluster.phase("retried") == "Failed", "the job has used its retries")
    return cluster


def titles(page: "Page") -> list[str]:
    return [
        str(line.get_attribute("aria-label")) for line in page.locator(".volcano-timeline-line button").all()
    ]


def test_earlier_attempts_of_a_pod_are_on_its_line(page: "Page", retried: UserCluster) -> None:
    shown = retried.objects("job", "show", "-N", "retried")["runs"]
    assert len(shown) > 1
    page.goto("/jobs/default/retried?tab=timeline")
    eventually(
        lambda: [title.count("Failed after") for title in titles(page)] == [len(shown) - 1],
        "one line with the earlier attempts",
    )
    assert page.locator(".volcano-timeline-bars .volcano-stage-failed").count() == len(shown)


def test_a_pod_that_is_deleted_while_the_page_is_open_stays_on_the_timeline(
    page: "Page", cluster: UserCluster
) -> None:
    submit(cluster, "suspended", "1h")
    eventually(lambda: cluster.phase("suspended") == "Running", "the job runs")
    page.goto("/jobs/default/suspended?tab=timeline")
    eventually(lambda: len(titles(page)) == 1, "the pod")
    cluster.run("vcctl", "job", "suspend", "-N", "suspended")
    eventually(
        lambda: any(
            re.match(r"suspended-worker-0, deleted; earlier: (Deleted|Evicted) after", each)
            for each in titles(page)
        ),
        "the run of the pod",
    )
    assert page.locator(".volcano-timeline-line button").first.is_disabled()


@pytest.fixture(scope="module")
def url(retried: UserCluster) -> Iterator[str]:
    in_thread(_grant(retried))
    with dashboard(retried, "--auth", "proxy") as url:
        yield url


async def _grant(cluster: UserCluster) -> None:
    """User `reader` may read jobs and pods, and not accounting."""
    client = connect(load_client_config({}, kubeconfig=str(cluster.kubeconfig)), SystemClock())
    rules = [
        {"apiGroups": [group], "resources": resources, "verbs": ["get", "list"]}
        for group, resources in (
            ("batch.volcano.sh", ["jobs"]),
            ("scheduling.volcano.sh", ["podgroups"]),
            ("", ["pods"]),
        )
    ]
    subject = {"kind": "User", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}
    try:
        await client.create(CLUSTER_ROLE, {**named(RBAC, "ClusterRole", "reader"), "rules": rules})
        binding = named(RBAC, "ClusterRoleBinding", "reader")
        await client.create(CLUSTER_ROLE_BINDING, {**binding, "subjects": [subject], "roleRef": reference})
    finally:
        await client.close()


def test_without_the_right_to_read_accounting_present_pods_are_shown_with_a_note(
    browser: "Browser", url: str
) -> None:
    context = browser.new_context(base_url=url, extra_http_headers={"X-Forwarded-User": "reader"})
    try:
        page = context.new_page()
        page.goto("/jobs/default/retried?tab=timeline")
        note = page.get_by_role("status").get_by_text("Pods that were deleted are not shown:")
        note.wait_for(timeout=MILLISECONDS)
        assert "reader" in note.inner_text(), "the API server says who may not"
        assert [title.count("earlier") for title in titles(page)] == [0]
    finally:
        context.close()


def test_a_pod_shows_its_gpus_and_the_devices_of_its_claims(page: "Page", cluster: UserCluster) -> None:
    in_thread(_create_template(cluster))
    submit(
        cluster,
        "devices",
        "1h",
        spec="resourceClaims: [{name: g, resourceClaimTemplateName: two}]",
        resources="{limits: {nvidia.com/gpu: 2}, claims: [{name: g}]}",
    )
    eventually(lambda: cluster.phase("devices") == "Running", "the job runs")
    page.goto("/jobs/default/devices?pod=devices-worker-0")
    table = page.get_by_role("region", name="Devices of the pod")
    table.wait_for(timeout=MILLISECONDS)
    rows = [row.locator("td").all_inner_texts() for row in table.locator("tbody tr").all()]
    assert rows[0][:2] == ["2 of the node's", "gpu"]
    assert [row[1] for row in rows[1:]] == ["gpu.example.com"] * 2
    assert all(row[2].startswith("claim devices-worker-0-g-") for row in rows[1:])


async def _create_template(cluster: UserCluster) -> None:
    client = connect(load_client_config({}, kubeconfig=str(cluster.kubeconfig)), SystemClock())
    request = {"name": "gpus", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}
    template = {
        "apiVersion": RESOURCE_CLAIM_TEMPLATE.api_version,
        "kind": RESOURCE_CLAIM_TEMPLATE.kind,
        "metadata": {"name": "two", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    try:
        await client.create(RESOURCE_CLAIM_TEMPLATE, template)
    finally:
        await client.close()
