"""Deletions while nothing is recorded, on a real API server: its history is read, and may have expired."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import started
from tests.k8s.plain import PODS, Object, until
from tests.k8s.programs import ELECTION, Programs, programs_on
from tests.k8s.test_scenarios import SOON
from volcano.accounting.api import Outcome, Run
from volcano.accounting.store.database import Database
from volcano.accounting.store.file_check import sqlite_url
from volcano.accounting.store.queries import RunsQuery, runs
from volcano.base.clock import parse_timestamp, timestamp

pytestmark = pytest.mark.k8s

TEAM = "team"
RECORDER = "controllers"
CONTAINER = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0}


@dataclass(frozen=True, slots=True)
class Recorded:
    """A cluster without kubelets, and the database of its recorder."""

    programs: Programs
    url: str

    def start(self, name: str = RECORDER, election: tuple[str, ...] = ("--leader-elect=false",)) -> None:
        flags = (*election, "--controllers=jobtemplate-controller")
        self.programs.start(name, *flags, "--accounting-database", self.url)

    def kill(self) -> None:
        self.programs.end(RECORDER, graceful=False)

    def runs(self) -> dict[str, Run]:
        database = Database(self.url)
        try:
            found = runs(database, RunsQuery(0, 1e12))
        finally:
            database.close()
        assert len({run.uid for run in found}) == len(found)
        return {run.pod: run for run in found}

    def until(self, condition: Any) -> dict[str, Run]:
        until(lambda: condition(self.runs()), SOON, self.programs.logs)
        return self.runs()

    def create(self, name: str) -> None:
        """A pod that a kubelet has started."""
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        spec = {"schedulerName": "volcano", "nodeName": "n1", "containers": [container]}
        self.programs.api.create(PODS.format(TEAM), {"metadata": {"name": name}, "spec": spec})
        now = timestamp(time.time())
        self.report(name, phase="Running", startTime=now, state={"running": {"startedAt": now}})

    def end(self, name: str, phase: str) -> str:
        """Reports the end of a pod's container, as a kubelet does; returns its time."""
        now = timestamp(time.time())
        self.report(name, phase=phase, state={"terminated": {"exitCode": 0, "finishedAt": now}})
        return now

    def report(self, name: str, *, state: Object, **status: str) -> None:
        path = f"{PODS.format(TEAM)}/{name}/status"
        self.programs.api.patch(
            path, {"status": {**status, "containerStatuses": [{**CONTAINER, "state": state}]}}
        )

    def delete(self, name: str, grace: int = 0) -> None:
        self.programs.api.delete(f"{PODS.format(TEAM)}/{name}?gracePeriodSeconds={grace}")


@pytest.fixture
def recorded(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Iterator[Recorded]:
    for cluster in started(tmp_path_factory):
        with programs_on(cluster, tmp_path_factory) as programs:
            programs.prepare(TEAM)
            yield Recorded(programs, sqlite_url(tmp_path / "accounting.db"))


def test_pods_deleted_while_the_recorder_is_dead_are_recorded_from_the_history(recorded: Recorded) -> None:
    recorded.start()
    for name in ("forced", "graceful"):
        recorded.create(name)
    recorded.until(lambda rows: len(rows) == 2)
    recorded.kill()
    recorded.create("short")
    ended = {"short": recorded.end("short", "Succeeded")}
    recorded.delete("short")
    recorded.delete("graceful", grace=30)
    ended["graceful"] = recorded.end("graceful", "Running")
    recorded.delete("graceful")
    recorded.delete("forced")
    forced = time.time()
    recorded.start()
    rows = recorded.until(lambda rows: len(rows) == 3 and rows["forced"].ended is not None)
    for name, at in ended.items():
        assert (rows[name].ended, rows[name].estimated) == (parse_timestamp(at), False)
    assert (rows["short"].outcome, rows["graceful"].outcome) == (Outcome.COMPLETED, Outcome.DELETED)
    assert (rows["forced"].outcome, rows["forced"].estimated) == (Outcome.DELETED, False)
    assert rows["forced"].ended == pytest.approx(forced, abs=2), "the server writes it into the last state"
    recorded.kill()
    recorded.start()
    recorded.create("later")
    again = recorded.until(lambda rows: "later" in rows)
    del again["later"]
    assert again == rows


def test_a_new_leader_records_what_was_deleted_between_the_leaders(recorded: Recorded) -> None:
    recorded.start(election=ELECTION)
    recorded.create("first")
    recorded.until(lambda rows: len(rows) == 1)
    recorded.start("controllers-2", ELECTION)
    recorded.kill()
    recorded.create("short")
    ended = recorded.end("short", "Succeeded")
    recorded.delete("short")
    rows = recorded.until(lambda rows: "short" in rows)
    assert (rows["short"].ended, rows["short"].estimated) == (parse_timestamp(ended), False)
    assert rows["first"].ended is None


def test_the_end_is_estimated_when_the_api_server_has_no_history(recorded: Recorded) -> None:
    recorded.start()
    recorded.create("gone")
    recorded.until(lambda rows: len(rows) == 1)
    recorded.kill()
    recorded.create("short")
    for name in ("gone", "short"):
        recorded.delete(name)
    cluster = recorded.programs.cluster
    cluster.kill("kube-apiserver")
    cluster.restart("kube-apiserver")
    recorded.start()
    rows = recorded.until(lambda rows: rows["gone"].ended is not None)
    assert (rows["gone"].outcome, rows["gone"].estimated) == (Outcome.UNKNOWN, True)
    assert rows.keys() == {"gone"}
    assert "history expired" in recorded.programs.logs()
