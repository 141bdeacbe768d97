"""Reports of simulations: found, read and compared; nothing outside the directory of reports is read."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulate.traces import run, sim_node, trace_job, workload
from volcano.dashboard.data.simulations import (
    DEEPEST,
    ReportError,
    charts,
    columns_of,
    figures,
    find_reports,
    read_report,
)
from volcano.simulate.results.series import Series, series_document
from volcano.simulate.results.summary import Summary, table_rows
from volcano.simulate.runner import Run
from volcano.simulate.workload import SimQueue


@pytest.fixture(scope="module")
def finished() -> Run:
    jobs = [
        trace_job(f"j{n}", 10.0 * n, 120.0, cpu=2.0, pods=1 + n % 2, queue="ab"[n % 2]) for n in range(20)
    ]
    queues = [SimQueue("a"), SimQueue("b", weight=2)]
    return run(workload(*jobs, trace_job("large", cpu=99.0, queue="a"), nodes=[sim_node()], queues=queues))


def write(place: Path, finished: Run, *, series: bool = True, name: str = "test") -> Path:
    """A report as `volcano simulate --report` writes it."""
    place.mkdir(parents=True, exist_ok=True)
    summary = replace(finished.summary, name=name)
    (place / "summary.json").write_text(json.dumps([summary.as_json()]))
    if series:
        document = series_document("21 jobs on 1 nodes", [(summary, finished.recorder)], ["a note"])
        (place / "series.json").write_text(json.dumps(document))
    return place


def test_a_summary_is_read_as_it_was_written(finished: Run) -> None:
    written = json.loads(json.dumps(finished.summary.as_json()))
    assert Summary.from_json(written).as_json() == written
    assert table_rows([Summary.from_json(written)])[:-1] == table_rows([finished.summary])[:-1]


def test_figures_over_time_are_read_as_they_were_written(finished: Run) -> None:
    series = Series.of(finished.summary, finished.recorder)
    assert Series.from_json(json.loads(json.dumps(series.as_json()))) == series
    assert set(series.allocated) == {"cpu", "memory"}, "the cluster has no GPUs"
    assert max(series.allocated["cpu"]) == pytest.approx(1.0)
    assert set(series.queue_share) == {"a", "b"}


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=3), x, max_size=3),
    )
)
def test_other_json_is_rejected_with_a_reason(data: object) -> None:
    for read in (Summary.from_json, Series.from_json):
        with pytest.raises(ValueError, match="not the"):
            read(data)


def test_reports_are_found_below_the_directory(tmp_path: Path, finished: Run) -> None:
    write(tmp_path, finished)
    write(tmp_path / "a" / "first", finished)
    write(tmp_path.joinpath(*"x" * (DEEPEST + 1)), finished)
    write(tmp_path / ".hidden", finished)
    write(tmp_path.parent / "elsewhere", finished)
    (tmp_path / "link").symlink_to(tmp_path.parent / "elsewhere")
    assert {each.name for each in find_reports(tmp_path)} == {".", "a/first"}


def test_a_report_has_its_title_and_configurations(tmp_path: Path, finished: Run) -> None:
    write(tmp_path / "first", finished)
    report = read_report(tmp_path, "first")
    assert report.title == "21 jobs on 1 nodes"
    assert report.notes == ("a note",)
    assert [each.name for each in report.summaries] == ["test"]


@pytest.mark.parametrize(
    "name", ["..", "../elsewhere", "/etc", "a/../../elsewhere", "link", "\0", "x" * 5000]
)
def test_nothing_outside_the_directory_is_read(tmp_path: Path, finished: Run, name: str) -> None:
    write(tmp_path / "elsewhere", finished)
    reports = tmp_path / "reports"
    reports.mkdir()
    (reports / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ReportError, match="no such report"):
        read_report(reports, name)


def test_a_file_that_is_a_link_to_another_directory_is_not_read(tmp_path: Path, finished: Run) -> None:
    secret = write(tmp_path / "elsewhere", finished) / "summary.json"
    reports = tmp_path / "reports"
    (reports / "r").mkdir(parents=True)
    (reports / "r" / "summary.json").symlink_to(secret)
    with pytest.raises(ReportError, match="not a file in the directory"):
        read_report(reports, "r")


@pytest.mark.parametrize(
    ("content", "error"),
    [("{", "is not JSON"), ("[]", "volcano simulate"), ("[{}]", "'configuration'"), ("[" * 100_000, "JSON")],
)
def test_a_file_of_another_kind_is_rejected_with_a_reason(tmp_path: Path, content: str, error: str) -> None:
    (tmp_path / "summary.json").write_text(content)
    with pytest.raises(ReportError, match=error):
        read_report(tmp_path, ".")


def test_a_report_that_is_gone_says_so(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"gone: .*summary\.json"):
        read_report(tmp_path, "gone")


def test_reports_are_compared_side_by_side(tmp_path: Path, finished: Run) -> None:
    write(tmp_path / "one", finished)
    write(tmp_path / "two", finished, name="other")
    columns = columns_of([read_report(tmp_path, name) for name in ("one", "two")])
    assert [column.label for column in columns] == ["one: test", "two: other"]
    rows = dict(figures(columns))
    assert rows["jobs"] == ["21", "21"]
    assert rows["never started"] == ["1", "1"]
    drawn = {chart.title: chart for chart in charts(columns)}
    assert [line.name for line in drawn["CPU allocated"].lines] == ["one: test", "two: other"]
    assert len(drawn["Queues, one: test"].lines) == 4, "the share and the deserved share of two queues"
    assert drawn["CPU allocated"].across == "Time (minutes)"
    assert max(at for at, _ in drawn["Waiting pods"].lines[0].points) < 180


def test_a_chart_has_a_line_for_each_report(tmp_path: Path, finished: Run) -> None:
    pytest.importorskip("nicegui", reason="the dashboard is not installed")
    from volcano.dashboard.pages.charts import curve_series

    chart = charts(columns_of([read_report(write(tmp_path, finished), ".")]))[0]
    (series,) = json.loads(json.dumps(curve_series(chart)))
    assert series["name"] == "test"
    assert series["data"][0][1] == pytest.approx(100 * chart.lines[0].points[0][1]), "in percent"


def test_a_report_without_figures_over_time_has_a_table_only(tmp_path: Path, finished: Run) -> None:
    columns = columns_of([read_report(write(tmp_path, finished, series=False), ".")])
    assert figures(columns)
    assert charts(columns) == []
