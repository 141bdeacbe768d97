"""Commands and flags, from the parsers of the programs."""

import argparse
import os
from collections.abc import Iterator

from tools.docs.markdown import code, page, table
from volcano.cli.commands import SLURM
from volcano.cli.program import parser_of
from volcano.cli.volcano import parser as local
from volcano.cmd import controllers, hypernode_controllers, scheduler, webhooks

WIDTH = "100"


def vcctl_page() -> str:
    programs = [parser_of("vcctl"), *(parser_of(name) for name in SLURM)]
    return page(
        "vcctl, vsub, vjobs and the others",
        "`vcctl` submits, watches and manages jobs and queues; `kubectl volcano` is the same program. "
        "The programs below it have one command each. [vcctl](../vcctl.md) explains names, lists and exit codes.",
        *(section for program in programs for section in sections(program)),
    )


def volcano_page() -> str:
    return page(
        "volcano",
        "`volcano` is a whole cluster in one process, and the tools around it.",
        *sections(local.build_parser()),
    )


def programs_page() -> str:
    return page(
        "Programs on Kubernetes",
        "The programs that the chart installs; they take the flags of Volcano's own.",
        *(
            section
            for module in (scheduler, controllers, webhooks, hypernode_controllers)
            for section in sections(module.build_parser())
        ),
    )


def sections(parser: argparse.ArgumentParser) -> Iterator[str]:
    """One section per command that does something, depth first."""
    if prepare := getattr(parser, "prepare", None):
        prepare()
    branches = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not branches or parser.prog.count(" ") == 0:
        yield section(parser)
    for branch in branches:
        listed = {choice.dest for choice in branch._choices_actions}
        for name, child in branch.choices.items():
            if name in listed:
                yield from sections(child)


def section(parser: argparse.ArgumentParser) -> str:
    os.environ["COLUMNS"] = WIDTH
    usage = parser.format_usage().removeprefix("usage: ").strip()
    text = [f"## {parser.prog}", (parser.description or "").strip(), f"```text\n{usage}\n```"]
    rows = [flag_row(action) for action in parser._actions if is_listed(action)]
    if rows:
        text.append(table(["flag", "meaning"], rows))
    if parser.epilog:
        text.append(f"```text\n{parser.epilog.strip()}\n```")
    return "\n\n".join(filter(None, text))


def is_listed(action: argparse.Action) -> bool:
    hidden = action.help == argparse.SUPPRESS or isinstance(action, argparse._HelpAction)
    return not hidden and not isinstance(action, argparse._SubParsersAction)


def flag_row(action: argparse.Action) -> tuple[str, str]:
    names = ", ".join(code(name) for name in action.option_strings) or code(
        str(action.metavar or action.dest)
    )
    value = ""
    if action.option_strings and action.nargs != 0:
        value = " " + code(
            "|".join(map(str, action.choices)) if action.choices else str(action.metavar or action.dest)
        )
    help = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    return names + value, help
