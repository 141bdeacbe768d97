"""Help: every command has examples that its own parser accepts."""

import shlex

import pytest

from tests.cli.conftest import Vcctl
from volcano import __version__
from volcano.cli.commands import HIDDEN, SLURM, VCCTL
from volcano.cli.examples import EXAMPLES
from volcano.cli.program import parser_of

COMMANDS = [command.words for command in VCCTL if command.help != HIDDEN] + list(SLURM)


def test_every_command_has_examples_and_no_other_has() -> None:
    assert set(EXAMPLES) == set(COMMANDS)


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_examples_are_valid_command_lines(line: str) -> None:
    program, *words = shlex.split(line.removeprefix('eval "$(').removesuffix(')"'))
    parsed = parser_of(program).parse_args(words)
    assert parsed.command is not None


@pytest.mark.parametrize("words", COMMANDS)
def test_help_ends_with_the_examples(words: str, run_command: Vcctl) -> None:
    program, rest = (words, ()) if words in SLURM else ("vcctl", tuple(words.split()))
    result = run_command(*rest, "--help", program=program)
    assert result.code == 0
    assert result.out.rstrip().endswith("\n".join(f"  {line}" for line in EXAMPLES[words]))


def test_help_is_a_command_too(run_command: Vcctl) -> None:
    assert run_command("help", "job", "list").out == run_command("job", "list", "--help").out
    assert run_command("help").out == run_command("--help").out


def test_help_for_an_unknown_command_suggests_one(run_command: Vcctl) -> None:
    result = run_command("help", "job", "lst")
    assert result.code == 2
    assert "unknown command 'lst'; did you mean 'list'?" in result.err


@pytest.mark.parametrize("program", ["vcctl", *SLURM])
def test_every_program_prints_its_version(program: str, run_command: Vcctl) -> None:
    assert run_command("--version", program=program).out == f"{program} {__version__}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["job", "logs", "x"], "cannot read logs of job: "),
        (["job", "wait", "x"], "cannot wait for job: "),
        (
            ["submit", "--workers", "-1", "--", "true"],
            "cannot submit job: --workers: must be 1 or more (got -1)",
        ),
        (["job", "view", "x"], "Failed to view job: "),
    ],
)
def test_errors_begin_with_a_sentence(words: list[str], message: str, run_command: Vcctl) -> None:
    assert run_command(*words).err.startswith(message)
