"""`volcano simulate` and `volcano snapshot save`, from the command line."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import job, node, queue
from tests.scenario import cluster_of
from volcano.cli.errors import INTERRUPTED, USAGE
from volcano.cmd.volcano import main
from volcano.scheduler.engine.config import shipped
from volcano.scheduler.snapshot_file import save
from volcano.simulate import runner

WORKLOAD = """
nodes:
- {name: n, count: 3, cpu: 8, memory: 32Gi, gpus: 2, model: A100, racks: 3}
queues:
- {name: research, weight: 1}
jobs:
- name: train
  queue: research
  count: 6
  arrivals: {every: 20s}
  runTime: 2m
  tasks: [{name: worker, replicas: 2, cpu: 2, memory: 1Gi, gpus: 1}]
- name: infer
  count: 10
  arrivals: {rate: 6/m}
  runTime: {exponential: 1m}
  tasks: [{cpu: 1, memory: 1Gi, gpus: 1, gpuShare: 0.25}]
"""


@pytest.fixture
def workload(tmp_path: Path) -> str:
    path = tmp_path / "workload.yaml"
    path.write_text(WORKLOAD)
    return str(path)


def test_configurations_are_compared_side_by_side(workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--trace", workload, "--config", "default", "--config", "preempt"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["default", "preempt"]
    figures = {line.split("  ")[0].strip(): line.split()[-2:] for line in lines[1:]}
    assert figures["jobs"] == ["16", "16"]
    assert figures["completed"] == ["16", "16"]
    assert {
        "wait, p95",
        "bounded slowdown, p99",
        "fragmentation",
        "fairness (Jain)",
        "preemptions",
    } <= figures.keys()


def test_json_and_reports_have_all_figures(
    workload: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["simulate", "--trace", workload, "--report", str(out), "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert json.loads((out / "summary.json").read_text()) == [found]
    assert found["results"]["completed"] == 16
    assert {
        "wait_s",
        "completion_s",
        "bounded_slowdown",
        "fairness",
        "lost_work",
        "unplaced_reasons",
    } <= found.keys()
    rows = list(csv.DictReader((out / "jobs-default.csv").read_text().splitlines()))
    assert len(rows) == 16
    page = (out / "report.html").read_text()
    assert page.count("<svg") == 6
    for title in (
        "Utilisation and allocation",
        "Waiting time",
        "Queues: dominant share",
        "Nodes:",
        "Fragmentation",
    ):
        assert title in page
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page


def test_what_if_options_change_the_result(workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    def figures(*more: str) -> Any:
        assert main(["simulate", "--trace", workload, "-o", "json", *more]) == 0
        return json.loads(capsys.readouterr().out)[0]

    usual = figures()
    assert figures("--add-nodes", "10:a100")["wait_s"]["mean"] < usual["wait_s"]["mean"]
    assert figures("--scale-arrivals", "3")["wait_s"]["mean"] > usual["wait_s"]["mean"]
    assert figures("--kill-rack", "rack-1@1m")["evictions"] == {"node failure": pytest.approx(1, abs=8)}
    assert figures("--set", "queue.research.capability.cpu=4")["fairness"] != usual["fairness"]
    assert sum(figures("--faults", "mtbf=2m,mttr=10s")["evictions"].values()) > 0
    assert figures("--jobs", "3")["jobs"] == 3
    assert figures("--until", "1m")["virtual_seconds"] == 60


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param([], "give --trace FILE or --from-cluster", id="no trace"),
        pytest.param(
            ["--trace", "pods.csv"], "the name does not tell the format; give --format", id="format"
        ),
        pytest.param(["--trace", "none.yaml"], "none.yaml: No such file", id="missing file"),
        pytest.param(["--trace", "{}", "--config", "none.conf"], "none.conf", id="missing configuration"),
        pytest.param(["--trace", "{}", "--set", "x"], "should be queue.NAME.FIELD=VALUE", id="set"),
        pytest.param(["--trace", "{}", "--until", "soon"], "'soon' is not a time", id="time"),
        pytest.param(["--experiment", "packing"], "needs --nodes FILE and --trace FILE", id="experiment"),
    ],
)
def test_wrong_command_lines_are_explained(
    workload: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["simulate", *(argument.format(workload) for argument in arguments)])
    assert code in (1, USAGE)
    assert message in capsys.readouterr().err


def test_ctrl_c_keeps_partial_results(
    workload: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "STEPS", 5)

    def interrupt(self: object, name: str, jobs: int, now: float) -> None:
        if jobs >= 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("volcano.cli.volcano.simulating.command._ProgressBar.update", interrupt)
    assert main(["simulate", "--trace", workload, "-o", "json"]) == INTERRUPTED
    printed = capsys.readouterr()
    (found,) = json.loads(printed.out)
    assert found["interrupted"]
    assert 3 <= found["results"]["completed"] < 16
    assert "partial" in printed.err


def test_a_saved_snapshot_goes_on_from_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = cluster_of(
        nodes=[node("n1", cpu=4)],
        jobs=[job("runs", 1, cpu=3, on="n1"), job("waits", 1, cpu=2)],
        queues=[queue("default"), queue("other", weight=3)],
    )
    path = tmp_path / "cluster.snapshot"
    path.write_bytes(save(cluster.snapshot(1_800_000_000.0), shipped()))
    assert main(["simulate", "--trace", str(path), "--run-time", "10m", "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["results"]["completed"] == 2
    assert found["wait_s"]["p99"] == pytest.approx(600, abs=5), "the second starts when the first has ended"
    assert {each["queue"] for each in found["fairness"]["queues"]} == {"default", "other"}
    assert main(["simulate", "--trace", str(path), "--add-nodes", "1:n1", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["wait_s"]["p99"] < 1


def test_the_packing_experiment_prints_one_result_per_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "openb_pod_list_small.csv"
    nodes.write_text(
        "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{i},32000,65536,4,T4\n" for i in range(3))
    )
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
    rows = "".join(
        f"p{i},1000,1024,1,{milli},,LS,Running,{i},{i + 9},{i}\n"
        for i, milli in enumerate([300, 700, 500] * 9)
    )
    pods.write_text(header + "scheduled_time\n" + rows)
    base = [
        "simulate",
        "--experiment",
        "packing",
        "--nodes",
        str(nodes),
        "--trace",
        str(pods),
        "--format",
        "openb",
    ]
    assert main([*base, "--seeds", "2", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"random", "bestfit", "fgd", "binpack", "fragmentation"} <= {each["policy"] for each in found}
    assert all(
        each["trace"] == "small" and each["seeds"] == 2 and each["placements_per_s"] > 0 for each in found
    )
    assert main([*base, "--policy", "best"]) == USAGE
    assert "no policy 'best'; choose from random" in capsys.readouterr().err
