"""Which runtime is chosen, and the reasons why others are not available."""

import os
import shutil
from collections.abc import Mapping, Sequence

import pytest

from volcano.nodes.runtimes import probe
from volcano.nodes.runtimes.probe import ProgramResult, RuntimeNotAvailable, choose
from volcano.nodes.shim.specs import Mode


def refusing(*names: str) -> probe.Run:
    def run(command: Sequence[str], environment: Mapping[str, str]) -> ProgramResult:
        return ProgramResult(1, "operation not permitted") if command[-1] in names else ProgramResult(0)

    return run


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.fixture
def as_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize(
    ("refused", "chosen"), [((), "netns"), (("netns",), "userns"), (("netns", "userns"), "plain")]
)
def test_auto_takes_the_best_that_is_allowed(refused: tuple[str, ...], chosen: str) -> None:
    choice = choose("auto", run=refusing(*refused))
    assert (choice.name, choice.mode) == (chosen, Mode(chosen))
    assert tuple(passed.name for passed in choice.unavailable) == refused
    assert all("operation not permitted" in passed.reason for passed in choice.unavailable)


@pytest.mark.usefixtures("as_user")
def test_without_root_namespaces_are_those_of_a_user() -> None:
    choice = choose("auto", run=refusing())
    assert choice.name == "userns"
    assert [passed.reason for passed in choice.unavailable] == ["it needs root"]


@pytest.mark.usefixtures("as_user")
def test_an_unavailable_runtime_is_rejected_with_the_reason() -> None:
    with pytest.raises(RuntimeNotAvailable, match="runtime netns is not possible here: it needs root"):
        choose("netns", run=refusing())
    with pytest.raises(RuntimeNotAvailable, match="user namespaces are refused: operation not permitted"):
        choose("userns", run=refusing("userns"))


def test_an_unknown_runtime_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(
        RuntimeNotAvailable,
        match=r"unknown runtime 'vm'; choose from auto, netns, userns, plain, podman, docker",
    ):
        choose("vm")


def test_an_engine_is_taken_when_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert choose("podman", run=refusing()).mode is None
    with pytest.raises(RuntimeNotAvailable, match="docker does not answer: operation not permitted"):
        choose("docker", run=refusing("info"))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(RuntimeNotAvailable, match="there is no program podman on PATH"):
        choose("podman", run=refusing())


def test_this_machine_allows_something() -> None:
    choice = choose()
    assert choice.mode is not None
    assert {found.name: found.available for found in map(probe.probe, probe.RUNTIMES)}[choice.name]
