"""Saved states are read back by the next shim, also after a full disk."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.nodes.shim.test_logfile import no_file_larger_than
from volcano.nodes.shim.specs import ContainerState, SandboxSpec
from volcano.nodes.shim.state_store import StateStore, sandbox_state

RUNNING = ContainerState("pod", "main", 0, started=1.5, pid=7)
ENDED = replace(RUNNING, pid=0, finished=2.5, exit_code=3, reason="Error")
SANDBOX = SandboxSpec("pod", "default", "p", "local-0", "/pods/pod", "p")


def test_records_are_read_back_as_they_were(tmp_path: Path) -> None:
    store = StateStore(str(tmp_path))
    store.save_sandbox(SANDBOX, "127.88.0.1")
    store.save_container(RUNNING)
    store.save_container(ENDED)
    store.save_container(replace(RUNNING, attempt=1))
    found = StateStore(str(tmp_path)).load()
    assert found.sandboxes == (sandbox_state(SANDBOX, "127.88.0.1"),)
    assert found.containers == (ENDED, replace(RUNNING, attempt=1))


def test_a_sandbox_is_forgotten_with_or_without_its_containers(tmp_path: Path) -> None:
    store = StateStore(str(tmp_path))
    store.save_sandbox(SANDBOX, "127.88.0.1")
    store.save_container(ENDED)
    store.delete_sandbox("pod")
    assert (store.load().sandboxes, store.load().containers) == ((), (ENDED,))
    store.delete_pod("pod")
    assert store.load().containers == ()
    assert os.listdir(tmp_path / "state") == []


def test_on_a_full_disk_an_end_is_written_over_the_beginning(tmp_path: Path) -> None:
    store = StateStore(str(tmp_path))
    store.save_container(RUNNING)
    folder = tmp_path / "state" / "pod"
    folder.chmod(0o500)
    if (
        os.geteuid() == 0
    ):  # root may write there all the same: a directory in place of the new file prevents it
        (folder / ".main.0.json").mkdir()
    store.save_container(ENDED)
    assert store.load().containers == (ENDED,)
    folder.chmod(0o700)


def test_an_end_that_cannot_be_written_at_all_is_an_error(tmp_path: Path) -> None:
    with no_file_larger_than(10), pytest.raises(OSError, match="no space left"):
        StateStore(str(tmp_path)).save_container(ENDED)


def test_a_torn_record_is_as_good_as_none(tmp_path: Path) -> None:
    store = StateStore(str(tmp_path))
    store.save_container(ENDED)
    (tmp_path / "state" / "pod" / "torn.0.json").write_text('{"pod": ')
    (tmp_path / "state" / "pod" / "odd.0.json").write_text('{"who": "knows"}')
    assert store.load().containers == (ENDED,)
