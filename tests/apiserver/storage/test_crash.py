"""Killed at any moment, under load, again and again: every acknowledged write is there."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import orjson
import pytest

from tests.apiserver.storage.crashing import MODES
from volcano.apiserver.storage.journal import DurableStore
from volcano.kube.api.manifest import Key

ROOT = Path(__file__).parents[3]
LIVES = int(os.environ.get("STORE_KILLS", "180")) // len(MODES)


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
            self.newest = max(self.newest, int(version))
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


class Forker:
    """The process that forks the writers."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.apiserver.storage.crashing"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def live(self, directory: Path, life: int, mode: str, seconds: float, promises: Promises) -> None:
        """Runs a writer for a while, kills it, and keeps what it said."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{directory} life{life} {mode}\n".encode())
        self._process.stdin.flush()
        lines: list[list[str]] = []
        pid, timer = 0, None
        for line in self._process.stdout:
            words = line.decode().split()
            if len(words) != 4:
                continue  # it may have been cut off, and with it the acknowledgement
            if words[0] == "ended":
                break
            if words[0] == "pid":
                pid = int(words[2])
            else:
                lines.append(words)
            if pid and lines and timer is None:
                timer = threading.Timer(seconds, os.kill, (pid, signal.SIGKILL))
                timer.start()
        assert timer is not None, "the writer did not start"
        timer.join()
        for words in lines:
            promises.hear(*words)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path, mode: str) -> None:
    random, promises, forker = Random(7), Promises(), Forker()
    try:
        for life in range(LIVES):
            forker.live(tmp_path / "data", life, mode, random.uniform(0.0, 0.3), promises)
            promises.check(tmp_path / "data")
    finally:
        forker.close()
    assert promises.count > 500, "the load was no load"
