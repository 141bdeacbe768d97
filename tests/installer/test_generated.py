"""Generated parts of the chart are up to date, and dashboards use existing metrics."""

import json
import re

import pytest
import yaml

from tools.generate_installer import chart_files, stale
from tools.installer.dashboards import dashboards
from tools.installer.places import CHART, ROOT
from volcano import __version__
from volcano.accounting.recorder.recorder import Recorder
from volcano.accounting.service.service import AccountingMetrics
from volcano.base.clock import SystemClock
from volcano.base.metrics import CollectorRegistry
from volcano.controllers.metrics import JobFlowMetrics, QueueMetrics
from volcano.scheduler.report.metrics import SchedulerMetrics

PARITY = ROOT / "docs" / "parity" / "installer.md"


def test_generated_files_of_the_chart_are_up_to_date() -> None:
    assert stale(dict(chart_files())) == []


def test_generated_folders_contain_only_generated_files() -> None:
    wanted = {path for path, _ in chart_files()}
    found = {path for folder in ("definitions", "dashboards") for path in (CHART / folder).iterdir()}
    assert found - wanted == set()


def test_versions_agree() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == chart["version"] == __version__
    for page in ("README.md", "docs/install.md", "installer/dockerfile/Dockerfile"):
        images = set(re.findall(r"volcano-py/volcano:([\w.]+)", (ROOT / page).read_text()))
        assert images == {__version__}, page


def known_metrics() -> set[str]:
    """The sample names of all metrics of our programs."""
    programs = CollectorRegistry()
    QueueMetrics(programs)
    JobFlowMetrics(programs)
    AccountingMetrics(programs, Recorder(), SystemClock())
    names = set()
    for registry in (SchedulerMetrics().registry, programs):
        for metric in registry.collect():
            suffixes = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",)}
            names |= {metric.name + suffix for suffix in suffixes.get(metric.type, ("",))}
    return names


@pytest.mark.parametrize("name", dashboards())
def test_dashboards_query_existing_metrics(name: str) -> None:
    dashboard = json.loads((CHART / "dashboards" / name).read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queried = {found for text in expressions for found in re.findall(r"\bvolcano_\w+", text)}
    assert len(queried) >= 8
    assert queried - known_metrics() == set()


@pytest.mark.parametrize("name", dashboards())
def test_panels_do_not_overlap(name: str) -> None:
    panels = json.loads(dashboards()[name])["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


def test_values_without_effect_and_unsupported_values_are_documented() -> None:
    """Values under "Without effect here" and "Unsupported" in values.yaml are in the parity page too."""
    documented = PARITY.read_text()
    section, missing, seen = "", [], 0
    for line in (CHART / "values.yaml").read_text().splitlines():
        if line.strip().startswith("# Without effect") or line.strip().startswith("# Unsupported"):
            section = line
        elif not line.strip():
            section = ""
        elif section and (name := line.strip().partition(":")[0]) and not name.startswith("#"):
            seen += 1
            if f"`{name}`" not in documented:
                missing.append(name)
    assert seen > 30
    assert missing == []
