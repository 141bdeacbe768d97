"""Killed at any moment, under load, again and again: every acknowledged write is there."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import orjson
import pytest

from volcano.apiserver.storage.journal import DurableStore
from volcano.kube.api.manifest import Key

ROOT = Path(__file__).parents[3]
LIVES = 12


@dataclass
class Promises:
    """What was acknowledged: of each object its last version and value, or that it is gone since."""

    kept: dict[str, tuple[int, str]] = field(default_factory=dict)
    gone: dict[str, int] = field(default_factory=dict)
    newest: int = 0
    count: int = 0

    def hear(self, word: str, name: str, version: str, value: str) -> None:
        if word == "open":
            assert int(version) >= self.newest, "versions never go back"
            return
        self.count += 1
        if word == "gone":
            known = self.kept.pop(name, (self.newest, ""))
            self.gone[name] = known[0]
            return
        self.gone.pop(name, None)
        self.kept[name] = (int(version), value)
        self.newest = max(self.newest, int(version))

    def check(self, directory: Path) -> None:
        """Every promise against what the directory holds. One write of each writer may be unacknowledged."""
        durable = DurableStore(directory, history=200)
        try:
            records = durable.store.collection("configmaps").records
            for name, (version, value) in self.kept.items():
                record = records.get(Key("default", name))
                if record is None:
                    continue  # deleted by a write that was cut off; checked by the count below
                assert record.version >= version, f"{name} is older than acknowledged"
                if record.version == version:
                    assert orjson.loads(record.data)["data"]["v"] == value
            lost = [name for name in self.kept if Key("default", name) not in records]
            writers = {name.partition("-")[0] for name in lost}
            assert len(lost) == len(writers), f"more is gone than each writer's last write explains: {lost}"
            for name, version in self.gone.items():
                record = records.get(Key("default", name))
                assert record is None or record.version > version, f"{name} came back from the dead"
            assert durable.store.version >= self.newest
            for name in lost:
                self.gone[name] = self.kept.pop(name)[0]
        finally:
            durable.close()


def live(directory: Path, life: int, seconds: float, promises: Promises) -> None:
    """Runs a writer for a while, kills it, and keeps what it said."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.apiserver.storage.crashing", str(directory), f"life{life}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    lines: list[bytes] = []
    reading = threading.Thread(target=lambda out=process.stdout: lines.extend(out))
    reading.start()
    while not lines and process.poll() is None:
        time.sleep(0.01)
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    reading.join()
    process.stdout.close()
    for line in lines:
        if line.endswith(b"\n"):  # the last line may have been cut off, and with it the acknowledgement
            promises.hear(*line.decode().split())


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    random, promises = Random(7), Promises()
    for life in range(LIVES):
        live(tmp_path / "data", life, random.uniform(0.05, 1.0), promises)
        promises.check(tmp_path / "data")
    assert promises.count > 500, "the load was no load"
