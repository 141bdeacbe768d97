"""A saved snapshot, replayed, gives the same decisions."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.builders import START, job, node, numatopology, queue
from tests.scenario import cluster_of, config
from tests.strategies import World, worlds
from volcano.cmd.scheduler import main
from volcano.scheduler.cycle import schedule
from volcano.scheduler.snapshot_file import SnapshotError, load, save

EVERYTHING = ("enqueue", "allocate", "preempt", "reclaim", "backfill")


@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_a_replay_decides_as_the_original_did(world: World) -> None:
    snapshot, used = cluster_of(**world.parts()).snapshot(START, 5), config(actions=EVERYTHING)
    again, text = load(save(snapshot, used.text))
    assert text == used.text
    moved = [str(d) for d in schedule(snapshot, used).decisions]
    assert [str(d) for d in schedule(again, used).decisions] == moved


@pytest.mark.slow
def test_a_replay_decides_in_the_same_order_in_every_process(tmp_path: Path) -> None:
    jobs = [job(f"j{number}", 1 + number % 3, age=number) for number in range(20)]
    cluster = cluster_of(nodes=[node("n1", cpu=9), node("n2", cpu=9)], jobs=jobs, queues=[queue("default")])
    path = tmp_path / "snapshot.json.gz"
    path.write_bytes(save(cluster.snapshot(START, 3), config(plugins=["gang", "predicates"]).text))

    def replayed(seed: str) -> str:
        code = (
            "import sys, pathlib; from volcano.scheduler.engine.config import parse;"
            "from volcano.scheduler.cycle import schedule; from volcano.scheduler.snapshot_file import load;"
            "snapshot, text = load(pathlib.Path(sys.argv[1]).read_bytes());"
            "print(*schedule(snapshot, parse(text)).decisions, sep='\\n')"
        )
        command = [sys.executable, "-c", code, str(path)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    first = replayed("1")
    assert "Bind(" in first
    assert replayed("2") == replayed("3") == first


def test_constraints_survive() -> None:
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
                ]
            }
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
            ]
        },
    }
    spec = {"affinity": affinity, "tolerations": [{"key": "x", "operator": "Exists"}]}
    snapshot = cluster_of(nodes=[node("n", labels={"disk": "ssd"})], jobs=[job("j", 1, spec=spec)]).snapshot(
        START
    )
    again, _ = load(save(snapshot, ""))
    (before,), (after,) = (s.jobs["default/j"].tasks.values() for s in (snapshot, again))
    assert after.shape.constraints == before.shape.constraints


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"not gzip", id="not gzip"),
        pytest.param(gzip.compress(b"{"), id="not JSON"),
        pytest.param(gzip.compress(b'{"format": "other"}'), id="another format"),
    ],
)
def test_what_is_no_snapshot_is_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        load(data)


def test_vc_scheduler_replays_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = cluster_of(
        nodes=[node("n1", cpu=2)], jobs=[job("fits", 2, age=9), job("waits", 1)], queues=[queue("default")]
    )
    path = tmp_path / "snapshot.json.gz"
    path.write_bytes(save(cluster.snapshot(START, 3), config(plugins=["gang", "predicates"]).text))
    assert main(["--replay", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "bind      default/fits-worker-0 → n1" in lines
    assert any(
        line.startswith("waits     default/waits at resources: 0/1 nodes are available") for line in lines
    )


def test_vc_scheduler_says_what_is_not_built() -> None:
    with pytest.raises(SystemExit):
        main(["--scheduler-sharding-mode=hard"])


def test_numa_topologies_survive() -> None:
    limits = {"cpu": "6", "memory": "1Gi"}
    spec = {"containers": [{"name": "main", "image": "i", "resources": {"limits": limits}}]}
    policy = {"volcano.sh/numa-topology-policy": "single-numa-node"}
    snapshot = cluster_of(
        nodes=[node("n", cpu=64)],
        jobs=[job(f"j{i}", 1, cpu=None, spec=spec, annotations=policy) for i in range(3)],
        others=[numatopology("n", policy="single-numa-node", reserved=1, pods={"x": "15"})],
    ).snapshot(START, memory={"numa-aware": {"gone": ["n", "0-3"]}})
    used = config(plugins=["gang", "predicates", "numa-aware"])
    again, _ = load(save(snapshot, used.text))
    assert again.numa_topologies == snapshot.numa_topologies
    moved = [str(d) for d in schedule(snapshot, used).decisions]
    assert [str(d) for d in schedule(again, used).decisions] == moved
    assert sum("Bind(" in each for each in moved) == 2
