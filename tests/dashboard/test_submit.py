"""The page Submit: the form and the YAML are in step, the preview is that of `vcctl plan`, and a created job runs."""

import json
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.dashboard.cluster import UserCluster, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
CLUSTER_FLAGS = ("--nodes", "4", "--node", "cpu=8,memory=32Gi,nvidia.com/gpu=4")


def opened(page: "Page", path: str = "/submit") -> None:
    page.goto(path)
    page.locator(".cm-content").wait_for()
    page.get_by_text("apiVersion").wait_for()


def text_of(page: "Page") -> str:
    """The text of the editor, of which the browser draws only the visible lines."""
    page.locator(".cm-content").click()
    page.evaluate("document.querySelector('.cm-scroller').scrollTop = 0")
    text: str = page.locator(".cm-content").inner_text()
    return text


def replace_text(page: "Page", text: str) -> None:
    page.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)


def test_the_form_changes_the_yaml_and_the_yaml_the_form(page: "Page", cluster: UserCluster) -> None:
    opened(page)
    page.get_by_label("Name", exact=True).fill("in-step")
    page.get_by_label("Replicas").fill("3")
    page.get_by_text("name: in-step").wait_for()
    page.get_by_text("replicas: 3").wait_for()
    job = yaml.safe_load(text_of(page).replace("\u200b", ""))
    assert job["metadata"]["name"] == "in-step"
    job["spec"]["minAvailable"] = 2
    job["spec"]["tasks"].append({**job["spec"]["tasks"][0], "name": "extra"})
    replace_text(page, json.dumps(job, indent=1))
    page.get_by_text("Task 2", exact=True).wait_for()
    assert page.get_by_label("minAvailable").input_value() == "2"
    assert page.get_by_label("Task name").nth(1).input_value() == "extra"
    replace_text(page, "kind: [")
    page.get_by_text("The form continues when the YAML is valid.").wait_for()
    assert page.get_by_label("Name", exact=True).is_disabled()


def test_the_preview_is_the_plan_and_a_created_job_runs(page: "Page", cluster: UserCluster) -> None:
    opened(page)
    page.get_by_label("Name", exact=True).fill("train")
    page.get_by_label("Replicas").fill("4")
    page.get_by_label("GPUs").fill("4")
    page.get_by_label("Command").fill("sleep 600")
    page.get_by_text("replicas: 4").wait_for()
    page.get_by_role("button", name="Preview").click()
    preview = page.get_by_test_id("preview")
    preview.get_by_text("It would start now.").wait_for()
    assert preview.get_by_text("4 of 4 pods placed").is_visible()
    file = cluster.home / "train.yaml"
    file.write_text(text_of(page))
    planned = json.loads(cluster.run("vcctl", "plan", "-f", str(file), "-o", "json"))["jobs"][0]
    nodes = {
        row["node"]: f"train-worker-{row['pods'][0].rpartition('-')[2]}" for row in planned["placements"]
    }
    for node, pod in nodes.items():
        assert preview.get_by_role("row").filter(has_text=node).filter(has_text=pod).count() == 1
    page.get_by_role("button", name="Create").click()
    page.wait_for_url("**/jobs/default/train")
    eventually(lambda: cluster.phase("train") == "Running", "the job runs")
    pods = cluster.objects("job", "view", "-N", "train")["spec"]["tasks"][0]
    assert pods["replicas"] == 4
    opened(page)
    page.get_by_label("Name", exact=True).fill("later")
    page.get_by_label("GPUs").fill("1")
    page.get_by_text("nvidia.com/gpu: '1'").first.wait_for()
    page.get_by_role("button", name="Preview").click()
    preview.get_by_text("It would not start now.").wait_for()
    assert preview.get_by_text("Insufficient nvidia.com/gpu").first.is_visible()
    cluster.run("vcctl", "job", "delete", "-N", "train")
    eventually(lambda: not cluster.objects("pod", "list")["items"], "the pods are gone")
    page.get_by_role("button", name="Preview").click()
    preview.get_by_text("It would start now.").wait_for()


def test_an_error_of_the_server_is_shown_at_its_field(page: "Page", cluster: UserCluster) -> None:
    opened(page)
    page.get_by_label("Replicas").fill("-1")
    page.get_by_text("replicas: -1").wait_for()
    page.get_by_role("button", name="Create").click()
    page.locator(".q-field--error").get_by_label("Replicas").wait_for()
    page.get_by_label("Replicas").fill("1")
    page.get_by_label("Walltime").fill("soon")
    page.get_by_text("walltime: soon").wait_for()
    page.get_by_role("button", name="Create").click()
    page.locator(".q-field--error").get_by_label("Walltime").wait_for()
    page.get_by_text("such as 2h").first.wait_for()
    assert cluster.objects("job", "list")["items"] == [], "nothing was created"


def test_a_job_of_the_cluster_can_be_submitted_again(page: "Page", cluster: UserCluster) -> None:
    cluster.submit("source", replicas=2)
    opened(page, "/submit?from=default/source")
    page.get_by_text("name: source-copy").wait_for()
    page.get_by_role("button", name="Create").click()
    page.wait_for_url("**/jobs/default/source-copy")
    copied = cluster.objects("job", "view", "-N", "source-copy")
    assert copied["spec"]["tasks"][0]["replicas"] == 2
