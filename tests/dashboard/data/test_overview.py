"""Figures and lines of the overview."""

from tests.dashboard.objects import objects_of
from tests.views.pictures import NOW
from volcano.dashboard.data.overview import (
    cycle_sentence,
    cycle_times,
    ended_sentence,
    figures,
    jobs,
    throughput,
    title_of,
    utilisation,
)
from volcano.dashboard.rights import Scopes
from volcano.dashboard.samples import CycleTimes, Sample
from volcano.kube.api.kinds import JOB

START = NOW - NOW % 60  # of a minute


def test_figures_count_jobs_nodes_and_resources() -> None:
    found = {figure.name: figure for figure in figures(objects_of())}
    assert (found["Jobs"].value, found["Jobs"].text) == ("1 running", "1 waiting")
    assert found["Nodes"].value == "2 of 2 ready"
    assert (found["CPU"].value, found["CPU"].part) == ("4 of 16", 0.25)
    assert found["Memory"].value == "0 of 32Gi"


def test_figures_leave_out_what_a_viewer_may_not_see() -> None:
    namespaced = Scopes({"jobs.batch.volcano.sh": frozenset({"team"})})
    assert [figure.name for figure in figures(objects_of(scopes=namespaced))] == ["Jobs"]
    assert [figure.name for figure in figures(objects_of(scopes=Scopes.everything([JOB])))] == ["Jobs"]
    assert figures(objects_of(scopes=Scopes({}))) == ()


def test_utilisation_is_in_percent_of_what_the_nodes_offer() -> None:
    total = {"cpu": 16.0, "memory": 2.0**30, "nvidia.com/gpu": 8.0}
    samples = [Sample(START, {"cpu": 4.0}, total), Sample(START + 10, {"nvidia.com/gpu": 8.0}, total)]
    found = {line.name: [value for _, value in line.points] for line in utilisation(samples)}
    assert found == {"CPU": [25.0, 0.0], "Memory": [0.0, 0.0], "GPU": [0.0, 100.0]}
    assert utilisation([]) == []


def test_lines_have_milliseconds() -> None:
    found = jobs([Sample(START, {}, {}, running=3, pending=2)])
    assert [(line.name, line.points) for line in found] == [
        ("Running", ((int(START * 1000), 3.0),)),
        ("Waiting", ((int(START * 1000), 2.0),)),
    ]


def test_throughput_is_summed_by_minute() -> None:
    samples = [
        Sample(START + second, {}, {}, completed=1, failed=second // 60) for second in range(0, 120, 10)
    ]
    found = {line.name: line.points for line in throughput(samples)}
    middles = [int((START + offset) * 1000) for offset in (30, 90)]
    assert found["Completed"] == tuple(zip(middles, (6.0, 6.0), strict=True))
    assert found["Failed"] == tuple(zip(middles, (0.0, 6.0), strict=True))
    assert ended_sentence(samples) == "12 completed and 6 failed in the last 110s."


def test_cycle_times_are_weighted_by_the_number_of_cycles() -> None:
    samples = [
        Sample(START, {}, {}, cycles=CycleTimes(3, 0.03, 0.02)),
        Sample(START + 10, {}, {}, cycles=CycleTimes(1, 0.07, 0.07)),
        Sample(START + 60, {}, {}, cycles=CycleTimes()),
    ]
    found = {line.name: line.points for line in cycle_times(samples)}
    middle = int((START + 30) * 1000)
    assert found == {"Mean": ((middle, 25.0),), "Longest": ((middle, 70.0),)}
    assert cycle_sentence(samples) == "Mean 25 ms, longest 70 ms, of 4 cycles that decided something."


def test_a_missing_record_of_cycles_is_told_from_an_idle_scheduler() -> None:
    assert cycle_sentence([Sample(START, {}, {})]) == "The record of cycles cannot be read."
    assert (
        cycle_sentence([Sample(START, {}, {}, cycles=CycleTimes())])
        == "No cycle decided anything in this time."
    )


def test_resources_have_short_titles() -> None:
    assert [title_of(name) for name in ("cpu", "memory", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb")] == [
        "CPU",
        "Memory",
        "GPU",
        "Mig-1g.5gb",
    ]
