"""The page Simulator: lists reports of `volcano simulate`, opens one and compares two, with the figures of the
files."""

import json
from typing import TYPE_CHECKING

import pytest

from tests.dashboard.cluster import UserCluster
from volcano.simulate.results.summary import Summary, table_rows

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
WORKLOAD = """
nodes:
- {name: gpu, count: 4, cpu: 64, memory: 256Gi, gpus: 8}
queues:
- {name: research, weight: 2}
- {name: product}
jobs:
- {name: train, queue: research, count: 6, arrivals: {rate: 30/h}, runTime: {exponential: 1h},
   tasks: [{name: worker, replicas: 4, cpu: 8, memory: 32Gi, gpus: 2}]}
- {name: infer, queue: product, count: 8, arrivals: {rate: 40/h}, runTime: {exponential: 30m}, priority: 10,
   tasks: [{cpu: 2, memory: 8Gi, gpus: 1}]}
"""


@pytest.fixture(scope="module")
def reports(cluster: UserCluster) -> UserCluster:
    (cluster.home / "workload.yaml").write_text(WORKLOAD)
    for name, config in (("first", "default"), ("second", "preempt")):
        cluster.run(
            "volcano", "simulate", "--trace", "workload.yaml", "--format", "yaml", "--config", config,
            "--report", f"reports/{name}",
        )  # fmt: skip
    return cluster


def test_two_reports_are_compared(page: "Page", reports: UserCluster) -> None:
    page.goto("/simulator")
    page.get_by_role("link", name="reports/first").click()
    page.get_by_role("heading", name="Results").wait_for()
    assert page.get_by_role("columnheader", name="default").count() == 1
    page.get_by_role("row").filter(has_text="reports/second").get_by_role("checkbox").click()
    page.get_by_role("columnheader", name="reports/second: preempt").wait_for()
    summaries = [
        Summary.from_json(json.loads((reports.home / "reports" / name / "summary.json").read_text())[0])
        for name in ("first", "second")
    ]
    results = page.get_by_role("table", name="Results").or_(page.locator("[aria-label=Results]")).first
    shown = [
        [cell.strip() for cell in row.locator("td").all_inner_texts()]
        for row in results.locator("tbody tr").all()
    ]
    assert shown == [[name, *values] for name, values in table_rows(summaries)]
    page.locator("[role=img][aria-label^='GPUs allocated'] svg").first.wait_for()
    page.reload()
    page.get_by_role("columnheader", name="reports/second: preempt").wait_for()


def test_a_name_that_leads_out_of_the_directory_is_rejected(page: "Page", reports: UserCluster) -> None:
    page.goto("/simulator?reports=../../etc")
    page.get_by_role("alert").get_by_text("there is no such report in the directory of reports").wait_for()


def test_a_directory_with_many_reports_and_others_is_listed(page: "Page", reports: UserCluster) -> None:
    summary = (reports.home / "reports" / "first" / "summary.json").read_text()
    for number in range(220):
        report = reports.home / "many" / f"report-{number}"
        report.mkdir(parents=True)
        (report / "summary.json").write_text(summary)
    for number in range(500):
        (reports.home / "others" / f"directory-{number}").mkdir(parents=True)
    page.goto("/simulator")
    page.get_by_text("1-50 of 200").wait_for()
    page.get_by_role("button", name="Look again").click()
    page.get_by_role("columnheader", name="Report").wait_for()
