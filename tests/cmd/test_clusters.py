"""Several clusters: names, contexts, and what `status` and `list` show of them."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.cli.test_screens import FixedSession, fill
from tests.cluster import SmallCluster
from tests.cmd.test_volcano import Shown, say, volcano
from volcano.cli.top.feed import listed
from volcano.cli.volcano.status import HealthReport, parse_health, print_list, print_status
from volcano.embedded import state
from volcano.embedded.kubeconfig import remove_context
from volcano.views.board import Board, board

__all__ = ["say"]

SCREENS = Path(__file__).parents[1] / "cli" / "screens"
RUNNING = state.Running(
    pid=4711, url="https://127.0.0.1:40123", kubeconfig="/home/you/.local/share/volcano/kubeconfig",
    directory="/home/you/.local/share/volcano", durable=True, nodes=2, local_nodes=0, runtime="",
    started="2026-01-01T00:00:00Z", version="0.1.0",
)  # fmt: skip
STARTED = 1767225600.0


def config_with(*names: str, current: str = "") -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": "https://x"}} for name in names],
            "users": [{"name": f"{name}-admin", "user": {}} for name in names],
            "contexts": [{"name": name, "context": {}} for name in names],
            "current-context": current or names[-1],
        }
    )


@pytest.mark.parametrize(
    ("current", "previous", "expected"),
    [
        pytest.param("volcano-b", "mine", "mine", id="the one before"),
        pytest.param("volcano-b", "gone", "volcano", id="any other, if that is gone"),
        pytest.param("mine", "", "mine", id="another one stays"),
    ],
)
def test_a_removed_context_leaves_a_valid_file(
    current: str, previous: str, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text(config_with("volcano", "volcano-b", "mine", current=current))
    assert remove_context(path, "volcano-b", previous)
    left = yaml.safe_load(path.read_text())
    assert left["current-context"] == expected
    for section in ("clusters", "contexts"):
        assert [entry["name"] for entry in left[section]] == ["volcano", "mine"]
    assert [entry["name"] for entry in left["users"]] == ["volcano-admin", "mine-admin"]
    assert not remove_context(path, "volcano-b")


def test_health_is_read_from_the_checks_of_the_server() -> None:
    text = (
        "[+]ping ok\n[-]store failed: no space left: 3\n[!]scheduler-config warning: x:1: wrong\n"
        "readyz check failed\n"
    )
    report = parse_health(text)
    assert report.passed == ("ping",)
    assert report.failed == {"store": "no space left: 3"}
    assert report.warnings == {"scheduler-config": "x:1: wrong"}
    assert not report.healthy


def test_without_clusters_it_is_said_how_to_start_one(say: Callable[..., Shown]) -> None:
    shown = say("list")
    assert (shown.code, shown.out) == (
        0,
        "no clusters; `volcano up` starts one, `volcano up --name NAME` another one\n",
    )
    assert say("status").code == 4
    assert "no cluster named 'x' runs" in say("status", "--name", "x").err


async def seen_of(cluster: SmallCluster) -> Board:
    await fill(cluster)
    picture, _ = await listed(FixedSession(cluster.client, cluster.clock, None), "")
    return board(picture)


def compare(name: str, session: FixedSession, columns: int) -> None:
    text = "\n".join(line.rstrip() for line in session.output.getvalue().splitlines()) + "\n"
    path = SCREENS / f"{name}.{columns}.txt"

    if os.environ.get("UPDATE_SCREENS"):
        path.write_text(text)
    assert text == path.read_text()
    assert max(map(len, text.splitlines())) <= columns


@pytest.mark.parametrize("columns", [80, 200])
async def test_the_screen_of_status_is_as_reviewed(columns: int) -> None:
    async with SmallCluster() as cluster:
        seen = await seen_of(cluster)
        session = FixedSession(cluster.client, cluster.clock, columns)
        failing = HealthReport(
            ("ping", "components"),
            {"store": "no space left on the disk; free some space"},
            {"scheduler-config": "plugin 'reservation' of Volcano is not provided and is skipped"},
        )
        print_status(session, RUNNING, failing, seen, STARTED + 7300)
        compare("volcano-status", session, columns)


@pytest.mark.parametrize("columns", [80, 200])
async def test_the_screen_of_list_is_as_reviewed(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/home/you/.local/share")
    async with SmallCluster() as cluster:
        session = FixedSession(cluster.client, cluster.clock, columns)
        rows = [
            {**{name: getattr(RUNNING, name) for name in RUNNING.__slots__}, "status": "Running"},
            {
                **{name: getattr(RUNNING, name) for name in RUNNING.__slots__},
                "name": "test", "context": "volcano-test", "status": "Unhealthy", "durable": False, "nodes": 100,
            },
            {"name": "old", "status": "Stopped", "directory": "/home/you/.local/share/volcano-clusters/old"},
        ]  # fmt: skip
        print_list(session, rows, STARTED + 7300)
        compare("volcano-list", session, columns)


@pytest.mark.slow
def test_named_clusters_are_contexts_of_one_kubeconfig_until_they_are_stopped(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text(config_with("prod"))
    common = ("--no-local-node", "--detach")
    shared = tmp_path / "data" / "volcano-clusters" / "kubeconfig.yaml"
    up = [
        volcano("up", "--nodes", "2", *common, home=tmp_path),
        volcano("up", "--name", "b", "--in-memory", "--kubeconfig", str(mine), *common, home=tmp_path),
    ]
    try:
        assert [shown.returncode for shown in up] == [0, 0], up
        assert set(contexts_of(shared)) == {"volcano", "volcano-b"}
        assert contexts_of(mine) == ["prod", "volcano-b"]
        listed = json.loads(volcano("list", "-o", "json", home=tmp_path).stdout)
        assert [(row["name"], row["status"]) for row in listed["clusters"]] == [
            ("default", "Running"),
            ("b", "Running"),
        ]
        again = volcano("up", "--name", "b", *common, home=tmp_path)
        assert again.returncode == 1
        assert "a cluster named 'b' runs already" in again.stderr
        status = volcano("status", "--name", "b", "-o", "json", home=tmp_path)
        assert (status.returncode, json.loads(status.stdout)["healthy"]) == (0, True)
        text = volcano("status", home=tmp_path).stdout
        assert "Nodes:       2 simulated, 2 ready" in text
        assert "Health:      healthy" in text
    finally:
        down = [volcano("down", "--name", name, home=tmp_path) for name in ("b", "default")]
    assert [shown.returncode for shown in down] == [0, 0], down
    assert contexts_of(shared) == []
    assert contexts_of(mine) == ["prod"]
    assert yaml.safe_load(mine.read_text())["current-context"] == "prod"
    stopped = json.loads(volcano("list", "-o", "json", home=tmp_path).stdout)["clusters"]
    assert [(row["name"], row["status"]) for row in stopped] == [("default", "Stopped")]


def contexts_of(path: Path) -> list[str]:
    return [entry["name"] for entry in yaml.safe_load(path.read_text())["contexts"]]
