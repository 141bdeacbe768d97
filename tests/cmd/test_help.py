"""Help, suggestions and completion of `volcano` and of the programs on Kubernetes."""

import argparse
import shlex
import socket
from collections.abc import Callable, Iterator

import pytest

from tests.cmd.test_volcano import Shown, say
from volcano.cli.completion.candidates import complete
from volcano.cli.program_parser import ProgramParser
from volcano.cli.volcano.completion import names
from volcano.cli.volcano.help_examples import EXAMPLES
from volcano.cli.volcano.parser import COMMANDS, build_parser
from volcano.cmd import controllers, scheduler, webhooks

__all__ = ["say"]

PROGRAMS = {module.NAME: module for module in (scheduler, controllers, webhooks)}
UNCLEAR = (
    "sake",
    "throw-away",
    "are ours",
    "makes no sense",
    "at the same place",
    "shipped one",
    " we ",
    "reaches us",
)


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            listed = {choice.dest for choice in action._choices_actions}
            for name, child in action.choices.items():
                if name in listed:
                    yield from parsers(child)


ALL = [*parsers(build_parser()), *(module.build_parser() for module in PROGRAMS.values())]


@pytest.mark.parametrize("parser", ALL, ids=lambda parser: parser.prog)
def test_every_help_ends_with_examples(parser: argparse.ArgumentParser) -> None:
    assert "\nexamples:\n  " in parser.format_help()


@pytest.mark.parametrize("parser", ALL, ids=lambda parser: parser.prog)
def test_every_flag_has_a_help_text_without_unclear_wording(parser: argparse.ArgumentParser) -> None:
    for action in parser._actions:
        assert action.help is not None or isinstance(action, argparse._SubParsersAction), action.dest
    text = parser.format_help()
    assert [words for words in UNCLEAR if words in text] == []


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_examples_of_volcano_are_valid_command_lines(line: str) -> None:
    program, *words = shlex.split(line.removeprefix('eval "$(').removesuffix(')"'))
    assert program == "volcano"
    assert build_parser().parse_args(words).command in COMMANDS


@pytest.mark.parametrize("name", PROGRAMS)
def test_examples_of_the_programs_are_valid_command_lines(name: str) -> None:
    parser = PROGRAMS[name].build_parser()
    assert parser.epilog is not None
    for line in parser.epilog.splitlines()[1:]:
        program, *words = shlex.split(line)
        assert program == name
        parser.parse_args(words)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        pytest.param(("stauts",), "unknown command 'stauts'; did you mean 'status'?", id="command"),
        pytest.param(
            ("up", "--detahc"),
            "unknown flag --detahc; did you mean '--detach'?\nSee `volcano up --help`",
            id="flag",
        ),
        pytest.param(("config", "chek"), "unknown command 'chek'", id="command of a group"),
        pytest.param(("up", "--name", "A b"), "--name: 'A b' is not a name", id="name"),
    ],
)
def test_mistyped_words_are_answered_with_a_suggestion(
    words: tuple[str, ...], text: str, say: Callable[..., Shown]
) -> None:
    shown = say(*words)
    assert shown.code == 2
    assert shown.err.startswith("volcano: usage error: ")
    assert text in shown.err


@pytest.mark.parametrize("name", PROGRAMS)
def test_mistyped_flags_of_the_programs_are_answered_with_a_suggestion(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser: ProgramParser = PROGRAMS[name].build_parser()
    with pytest.raises(SystemExit) as end:
        parser.parse_args(["--scheduler-nam=x"])
    assert end.value.code == 2
    assert "unknown flag --scheduler-nam; did you mean '--scheduler-name'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "values"),
    [
        pytest.param(("sta",), ["status"], id="commands"),
        pytest.param(("examples", "s"), ["show"], id="commands of a group"),
        pytest.param(("examples", "run", "all"), ["allreduce"], id="examples"),
        pytest.param(("config", "show", ""), ["default", "preempt", "reservation"], id="presets"),
        pytest.param(("up", "--scheduler-conf", "p"), ["preempt"], id="presets by flag"),
        pytest.param(("up", "--runtime", "n"), ["netns"], id="choices"),
        pytest.param(("up", "--det"), ["--detach"], id="flags"),
        pytest.param(("__comp",), [], id="hidden commands"),
    ],
)
def test_words_of_volcano_are_completed(words: tuple[str, ...], values: list[str]) -> None:
    answer = complete(build_parser(), words, names, "volcano")
    assert [each.value for each in answer.candidates] == values


def test_files_are_left_to_the_shell() -> None:
    for words in (("run", ""), ("up", "--scheduler-conf", ""), ("up", "-f", ""), ("restore", "")):
        assert complete(build_parser(), words, names, "volcano").files, words


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_volcano(shell: str, say: Callable[..., Shown]) -> None:
    shown = say("completion", shell)
    assert shown.code == 0
    assert "volcano" in shown.out
    assert "vcctl" not in shown.out
    assert "@PROGRAMS@" not in shown.out


def test_a_port_in_use_is_explained(say: Callable[..., Shown]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        shown = say("up", "--in-memory", "--no-local-node", "--port", str(port))
    assert shown.code == 1
    assert f"cannot listen on 127.0.0.1:{port}: address already in use; choose another port" in shown.err
    assert "Errno" not in shown.err
