"""Tree of parsers; a command's module is imported when the command is chosen."""

import argparse
from collections.abc import Callable, Coroutine, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from volcano import __version__
from volcano.cli.commands import GROUPS, Command
from volcano.cli.errors import UsageError, near
from volcano.cli.examples import epilog

if TYPE_CHECKING:
    from volcano.cli.session import Session

Run = Callable[[argparse.Namespace, "Session"], Coroutine[Any, Any, int]]
_SWITCHES = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


class Parser(argparse.ArgumentParser):
    """Parser that raises UsageError, suggests similar words, and adds a command's flags on first use."""

    command: Command | None = None
    outermost = False
    _prepared = False

    def __init__(self, **settings: Any) -> None:
        given = {"allow_abbrev": False, "formatter_class": argparse.RawDescriptionHelpFormatter, **settings}
        super().__init__(**given)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.prepare()
        parsed, rest = super().parse_known_args(self._plain_switches(args or []), namespace)
        if rest:
            word = rest[0]
            if word.startswith("-"):
                flag = word.partition("=")[0]
                raise UsageError(f"unknown flag {flag}{near(flag, self._option_string_actions)}")
            raise UsageError(f"unexpected argument {word!r}")
        return parsed, rest

    def prepare(self) -> None:
        """Adds the flags of the command once."""
        if self.command is not None and not self._prepared:
            self._prepared = True
            module = import_module(f"volcano.cli.{self.command.module}")
            getattr(module, f"{self.command.function}_arguments")(self)
            add_common(self, inherited=not self.outermost)
            self.set_defaults(
                command=self.command, run=getattr(module, self.command.function), leaf=self.prog
            )

    def _plain_switches(self, words: Sequence[str]) -> list[str]:
        """Converts `--switch=true` to `--switch` and drops `--switch=false`: pflag accepts both."""
        plain: list[str] = []
        for position, word in enumerate(words):
            if word == "--":
                return [*plain, *words[position:]]
            flag, equals, value = word.partition("=")
            action = self._option_string_actions.get(flag)
            if equals and action is not None and action.nargs == 0 and value.lower() in _SWITCHES:
                plain += [flag] if _SWITCHES[value.lower()] else []
            else:
                plain.append(word)
        return plain

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        if isinstance(action, argparse._SubParsersAction):
            raise UsageError(f"unknown command {value!r}{near(str(value), known)}")
        what = "/".join(action.option_strings)
        raise UsageError(f"{what}: {value!r} is none of {', '.join(known)}{near(str(value), known)}")


def build(program: str, description: str, commands: Sequence[Command]) -> Parser:
    """Parser of a program with many commands."""
    root = Parser(prog=program, description=description, usage="%(prog)s [FLAGS] COMMAND ...")
    branches = _branches(root)
    _add_version(root)
    add_common(root)
    groups: dict[str, Any] = {}
    for command in commands:
        group, _, leaf = command.words.rpartition(" ")
        if group and group not in groups:
            parser = branches.add_parser(
                group, help=GROUPS[group], description=GROUPS[group], usage="%(prog)s [FLAGS] COMMAND ..."
            )
            groups[group] = _branches(parser)
            add_common(parser, inherited=True)
        listed = {"help": command.help} if command.help else {}
        parser = groups.get(group, branches).add_parser(
            leaf, description=_sentence(command.help), epilog=epilog(command.words), **listed
        )
        parser.command = command
    return root


def build_single(program: str, command: Command) -> Parser:
    """Parser of a program with a single command."""
    parser = Parser(prog=program, description=_sentence(command.help), epilog=epilog(program))
    _add_version(parser)
    parser.command = command
    parser.outermost = True
    return parser


def _branches(parser: Parser) -> "argparse._SubParsersAction[Parser]":
    return parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser, prog=parser.prog)


def add_common(parser: argparse.ArgumentParser, *, inherited: bool = False) -> None:
    """Adds the flags of every command; an inner parser keeps what an outer one has parsed."""
    group = parser.add_argument_group("connection")
    if inherited:
        group.description = (
            f"as `{parser.prog.split(' ')[0]} --help` says, such as --kubeconfig and --context"
        )
    for names, settings in COMMON:
        if inherited:
            settings = {**settings, "default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
        # A command may use a name for itself, as `vcctl explain` does with -v.
        group.add_argument(*(name for name in names if name not in parser._option_string_actions), **settings)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _add_version(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")


def _text(help: str, metavar: str) -> dict[str, Any]:
    return {"default": "", "help": help, "metavar": metavar}


COMMON: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("-s", "--master", "--server"), _text("address of the API server", "URL")),
    (("-k", "--kubeconfig"), _text("kubeconfig file", "FILE")),
    (("--context",), _text("context of the kubeconfig", "NAME")),
    (("--cluster",), _text("cluster of the kubeconfig", "NAME")),
    (("--user",), _text("user of the kubeconfig", "NAME")),
    (("--token",), _text("bearer token", "TOKEN")),
    (("--as",), {**_text("user to impersonate", "USER"), "dest": "impersonate"}),
    (
        ("--as-group",),
        {"action": "append", "default": None, "help": "group to impersonate; repeatable", "metavar": "GROUP"},
    ),
    (
        ("--insecure-skip-tls-verify",),
        {"action": "store_true", "default": False, "help": "do not verify the server's certificate"},
    ),
    # parity: accepted everywhere, as with Volcano's logging library; without effect here.
    (("-v", "--v"), _text(argparse.SUPPRESS, "LEVEL")),
    (("--vmodule",), _text(argparse.SUPPRESS, "PATTERN=LEVEL")),
    (("--log-flush-frequency",), _text(argparse.SUPPRESS, "DURATION")),
)
