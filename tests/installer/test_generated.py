"""Generated parts of the chart are up to date, and dashboards show metrics that there are."""

import json
import re

import pytest
import yaml

from tools.generate_installer import chart_files, stale
from tools.installer.dashboards import dashboards
from tools.installer.places import CHART, ROOT
from volcano.controllers.metrics import JobFlowMetrics, QueueMetrics
from volcano.metrics import CollectorRegistry
from volcano.scheduler.report.metrics import SchedulerMetrics

PARITY = ROOT / "docs" / "parity" / "installer.md"


def test_the_charts_copies_are_what_they_are_copies_of() -> None:
    assert stale(dict(chart_files())) == []


def test_nothing_lies_in_the_charts_generated_folders_that_is_not_generated() -> None:
    wanted = {path for path, _ in chart_files()}
    lying = {path for folder in ("definitions", "dashboards") for path in (CHART / folder).iterdir()}
    assert lying - wanted == set()


def test_versions_agree() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert project is not None
    assert chart["appVersion"] == chart["version"] == project[1]


def known_metrics() -> set[str]:
    """Every name a sample may have, as our programs show them."""
    programs = CollectorRegistry()
    QueueMetrics(programs)
    JobFlowMetrics(programs)
    names = set()
    for registry in (SchedulerMetrics().registry, programs):
        for metric in registry.collect():
            suffixes = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",)}
            names |= {metric.name + suffix for suffix in suffixes.get(metric.type, ("",))}
    return names


@pytest.mark.parametrize("name", dashboards())
def test_dashboards_ask_for_metrics_that_there_are(name: str) -> None:
    dashboard = json.loads((CHART / "dashboards" / name).read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked = {found for text in expressions for found in re.findall(r"\bvolcano_\w+", text)}
    assert len(asked) >= 8
    assert asked - known_metrics() == set()


@pytest.mark.parametrize("name", dashboards())
def test_panels_have_places_of_their_own(name: str) -> None:
    panels = json.loads(dashboards()[name])["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


def test_values_without_effect_and_values_refused_are_written_down() -> None:
    """What stands under "Without effect here" and "Refused" in values.yaml stands in the parity page too."""
    told = PARITY.read_text()
    section, missing, seen = "", [], 0
    for line in (CHART / "values.yaml").read_text().splitlines():
        if line.strip().startswith("# Without effect") or line.strip().startswith("# Refused"):
            section = line
        elif not line.strip():
            section = ""
        elif section and (name := line.strip().partition(":")[0]) and not name.startswith("#"):
            seen += 1
            if f"`{name}`" not in told:
                missing.append(name)
    assert seen > 30
    assert missing == []
