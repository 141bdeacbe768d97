"""`volcano examples`: job files that are part of the package, to list, print and run."""

import argparse
import re
import shlex
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from volcano.cli.errors import near
from volcano.cli.printing.tables import Column, Layout
from volcano.cli.session import Session
from volcano.entry.errors import CommandError
from volcano.nodes.kubelet.gpus.driver import has_gpus

DIRECTORY = Path(str(resources.files("volcano"))) / "examples"
COMMAND = re.compile(r"^#\s+(volcano run .*)$", re.MULTILINE)
MISSING = 3  # exit code


def names() -> list[str]:
    """Names of all examples."""
    return sorted(path.stem for path in DIRECTORY.glob("*.yaml"))


def path_of(name: str) -> Path:
    """The file of an example. Raises CommandError if there is none of this name."""
    name = name.removesuffix(".yaml")
    if name not in names():
        raise CommandError(
            f"no example {name!r}{near(name, names())}; `volcano examples list` lists them", code=MISSING
        )
    return DIRECTORY / f"{name}.yaml"


def about(path: Path) -> str:
    """First sentence of the comment at the top of a file."""
    lines = []
    for line in path.read_text().splitlines():
        text = line.removeprefix("#").strip()
        if not line.startswith("#") or not text:
            break
        lines.append(text)
    return re.split(r"(?<=[.:])\s", " ".join(lines), maxsplit=1)[0].rstrip(".:")


def flags_of(path: Path) -> list[str]:
    """Flags of the first `volcano run` command in the comment at the top of a file that this machine can run."""
    commands = [shlex.split(command)[2:] for command in COMMAND.findall(path.read_text())]
    words = next((words for words in commands if not _needs_gpu(words) or has_gpus()), [])
    return [word for word in words if not word.endswith(f"{path.stem}.yaml")]


def _needs_gpu(flags: Sequence[str]) -> bool:
    return "--share-gpus" in flags and "--fake-gpus" not in flags


def list_examples(arguments: argparse.Namespace) -> int:
    """Prints a table of all examples."""
    session = Session()
    rows = [DIRECTORY / f"{name}.yaml" for name in names()]
    columns = [
        Column("NAME", lambda path: path.stem),
        Column("DESCRIPTION", about, sentence=True),
    ]
    layout = Layout(columns, rows, terminal=session.terminal, colour=session.colour, room=session.width)
    session.write(layout.header().rstrip())
    for row in rows:
        for line in layout.wrapped(row):
            session.write(line.rstrip())
    return 0


def show(arguments: argparse.Namespace) -> int:
    """Prints the file of an example."""
    Session().write(path_of(arguments.example).read_text(), end="")
    return 0


def run(arguments: argparse.Namespace) -> int:
    """Runs an example with the flags that its file names; flags of the command line win."""
    from volcano.entry.local import build_parser
    from volcano.entry.runs import run as run_files

    path = path_of(arguments.example)
    given: list[str] = arguments.run_flags
    parsed = build_parser().parse_args(["run", *flags_of(path), *given, str(path)])
    return run_files(parsed)
