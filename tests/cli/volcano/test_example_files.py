"""`volcano examples`: files of the package by name."""

from collections.abc import Callable

import pytest

from tests.cmd.test_volcano import Shown, say
from volcano.cli.volcano.example_files import flags_of, names, path_of

__all__ = ["say"]


def test_every_example_is_listed_with_a_description(say: Callable[..., Shown]) -> None:
    lines = say("examples", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", *names()]
    assert all(len(line.split()) > 4 for line in lines[1:])


@pytest.mark.parametrize("name", names())
def test_an_example_is_printed_as_it_is(name: str, say: Callable[..., Shown]) -> None:
    assert say("examples", "show", name).out == path_of(name).read_text()


def test_examples_run_with_the_flags_of_their_own_comment() -> None:
    assert flags_of(path_of("torchrun-gang")) == ["--fake-gpus", "3"]
    assert flags_of(path_of("allreduce")) == []


@pytest.mark.parametrize(
    ("present", "flags"), [(True, ["--share-gpus", "4"]), (False, ["--fake-gpus", "1", "--share-gpus", "4"])]
)
def test_an_example_for_gpus_runs_with_fake_ones_where_there_are_none(
    present: bool, flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volcano.cli.volcano.example_files.has_gpus", lambda: present)
    assert flags_of(path_of("gpu-share")) == flags


def test_a_mistyped_name_is_answered_with_a_suggestion(say: Callable[..., Shown]) -> None:
    shown = say("examples", "show", "alreduce")
    assert shown.code == 3
    assert "no example 'alreduce'; did you mean 'allreduce'?" in shown.err


@pytest.mark.slow
def test_an_example_runs_to_its_end(say: Callable[..., Shown]) -> None:
    shown = say("examples", "run", "array", "--", "--no-local-node", "--sim-duration", "1s")
    assert shown.code == 0, shown.err
    assert "Completed" in shown.out
