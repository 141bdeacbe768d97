"""How every one of our command line programs runs: parse, open a session, carry out, end with the right code."""

import os
import sys
from collections.abc import Sequence

from volcano.cli.commands import SLURM, VCCTL
from volcano.cli.errors import BROKEN_PIPE, INTERRUPTED, CommandError, UsageError, explain
from volcano.cli.parsing import Parser, build, build_single

ABOUT = "Submit, watch and manage batch jobs on Kubernetes."


def main(words: Sequence[str] | None = None, *, program: str = "vcctl") -> int:
    """Runs one command line; returns the exit code. Nothing is raised."""
    parser = parser_of(program)
    given = list(sys.argv[1:] if words is None else words)
    title = program
    try:
        try:
            arguments = parser.parse_args(given)
        except UsageError as error:
            leaf = chosen(parser, given)
            raise UsageError(f"{error}\nSee `{leaf.prog} --help`.") from None
        if not hasattr(arguments, "command"):
            chosen(parser, given).print_help()
            return 0
        title = _title(arguments.command.words)
        from volcano.cli.session import Session  # late: `--help` must not wait for it

        return Session.of(arguments).run(arguments.run, arguments)
    except SystemExit as ending:  # --help
        return int(ending.code or 0)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read us has gone: that is no failure of ours, and Python must not complain on the way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        return _report(title, explain(error))


def parser_of(program: str) -> Parser:
    """The parser of a program, by its name."""
    if program in SLURM:
        return build_single(program, SLURM[program])
    return build(program, ABOUT, VCCTL)


def chosen(parser: Parser, words: Sequence[str]) -> Parser:
    """The innermost parser that the words lead to."""
    for word in words:
        branches = [action for action in parser._actions if isinstance(action.choices, dict)]
        if branches and branches[0].choices and word in branches[0].choices:
            parser = dict(branches[0].choices)[word]
    return parser


def _title(words: str) -> str:
    """`Failed to view job`, as the reference says it: from the leaf upwards."""
    return " ".join(["Failed to", *reversed(words.split())])


def _report(title: str, error: CommandError) -> int:
    sys.stderr.write(f"{title}: {error}\n")
    return error.code
