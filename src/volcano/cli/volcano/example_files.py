"""`volcano examples`: job files that are part of the package, to list, print and run.

An example of a framework is `frameworks/<framework>/<name>.yaml` and is called `<framework>/<name>`. Comments at the
top of a file say what it is, which frameworks it needs (`volcano frameworks install ...`, by default the one of its
directory) and how to run it (`volcano run ...` or `volcano examples run ...`).
"""

import argparse
import re
import shlex
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from volcano.cli.errors import CommandError, near
from volcano.cli.printing.tables import Column
from volcano.cli.session import Session
from volcano.nodes.kubelet.gpus.driver import has_gpus
from volcano.services.errors import NotFoundError

DIRECTORY = Path(str(resources.files("volcano"))) / "examples"
FRAMEWORKS = DIRECTORY / "frameworks"
COMMAND = re.compile(r"^#\s+(volcano run .*)$", re.MULTILINE)
RUNNABLE = re.compile(r"^#\s+volcano (run|examples run) ", re.MULTILINE)
INSTALL = re.compile(r"^#\s+volcano frameworks install (.*)$", re.MULTILINE)
INSTALLED_PATH = re.compile(r"\$\(volcano frameworks path ([\w-]+)\)")
FEWEST_WORDS = 4  # of a description


def names() -> list[str]:
    """Names of all examples, those of frameworks last."""
    return [*sorted(path.stem for path in DIRECTORY.glob("*.yaml")), *_framework_examples()]


def _framework_examples() -> list[str]:
    """Every file that says how it is run; others are parts of an example."""
    paths = sorted(FRAMEWORKS.glob("*/*.yaml"))
    return [f"{path.parent.name}/{path.stem}" for path in paths if RUNNABLE.search(path.read_text())]


def path_of(name: str) -> Path:
    """The file of an example; the name of a framework means its only example. Raises CommandError if there is none."""
    name = name.removesuffix(".yaml").removeprefix("frameworks/")
    if name in names():
        return (FRAMEWORKS if "/" in name else DIRECTORY) / f"{name}.yaml"
    of_framework = [each for each in _framework_examples() if each.startswith(f"{name}/")]
    if len(of_framework) == 1:
        return path_of(of_framework[0])
    if of_framework:
        raise NotFoundError(f"{name!r} has several examples: {', '.join(of_framework)}; choose one")
    raise NotFoundError(f"no example {name!r}{near(name, names())}; `volcano examples list` lists them")


def name_of(path: Path) -> str:
    return path.stem if path.parent == DIRECTORY else f"{path.parent.name}/{path.stem}"


def about(path: Path) -> str:
    """First sentence of the comment at the top of a file, up to a colon unless little comes before it."""
    lines = []
    for line in path.read_text().splitlines():
        text = line.removeprefix("#").strip()
        if not line.startswith("#") or not text:
            break
        lines.append(text)
    sentence = re.split(r"(?<=\.)\s", " ".join(lines), maxsplit=1)[0].rstrip(".")
    head = sentence.partition(": ")[0]
    return head if len(head.split()) >= FEWEST_WORDS else sentence


def flags_of(path: Path) -> list[str]:
    """Flags of the first `volcano run` command in the comment at the top of a file that this machine can run."""
    return [word for word in _words_of(path) if not word.endswith(f"{path.stem}.yaml")]


def _words_of(path: Path) -> list[str]:
    """Words after `volcano run`; `$(volcano frameworks path NAME)` is one of them, or its begin."""
    commands = []
    for command in COMMAND.findall(path.read_text()):
        marked = INSTALLED_PATH.sub(r"@\1@", command)
        commands.append([_unmarked(word) for word in shlex.split(marked)[2:]])
    return next((words for words in commands if not _needs_gpu(words) or has_gpus()), [])


def _unmarked(word: str) -> str:
    return re.sub(r"^@([\w-]+)@", r"$(volcano frameworks path \1)", word)


def _needs_gpu(flags: Sequence[str]) -> bool:
    return "--share-gpus" in flags and "--fake-gpus" not in flags


def frameworks_of(path: Path) -> list[str]:
    """Frameworks that an example needs: those its comment names, or the one of its directory."""
    named = [name for line in INSTALL.findall(path.read_text()) for name in line.split()]
    if named or path.parent == DIRECTORY:
        return list(dict.fromkeys(named))
    from volcano.frameworks.install import recipe_names

    return [path.parent.name] if path.parent.name in recipe_names() else []


def list_examples(arguments: argparse.Namespace) -> int:
    """Prints a table of all examples."""
    session = Session()
    rows = [path_of(name) for name in names()]
    columns = [
        Column("NAME", name_of),
        Column("DESCRIPTION", about, sentence=True),
    ]
    session.table(columns, rows, wrapped=True)
    return 0


def show(arguments: argparse.Namespace) -> int:
    """Prints the file of an example."""
    Session().write(path_of(arguments.example).read_text(), end="")
    return 0


def run(arguments: argparse.Namespace) -> int:
    """Runs an example with the flags that its file names; flags of the command line win.

    Frameworks that it needs are installed first.
    """
    from volcano.cli.volcano.parser import build_parser
    from volcano.cli.volcano.runs import run as run_files

    path = path_of(arguments.example)
    installed = _install(frameworks_of(path))
    given: list[str] = arguments.run_flags
    words = [_resolved(word, path, installed) for word in _words_of(path)]
    if str(path) not in words:
        words.append(str(path))
    return run_files(build_parser().parse_args(["run", *words, *given]))


def _install(frameworks: Sequence[str]) -> dict[str, Path]:
    if not frameworks:
        return {}
    from volcano.cli.volcano.framework.commands import install_with_progress, known
    from volcano.frameworks.cache import Cache
    from volcano.frameworks.recipe import NotAvailable

    cache = Cache()
    try:
        return {name: install_with_progress(known(name), cache) for name in frameworks}
    except NotAvailable as error:
        raise CommandError(str(error)) from None


def _resolved(word: str, path: Path, installed: dict[str, Path]) -> str:
    """A word of the command with the paths of this host."""
    match = INSTALLED_PATH.match(word)
    if match is not None:
        return f"{installed[match[1]]}{word[match.end() :]}"
    if word.startswith("examples/"):
        return str(DIRECTORY / word.removeprefix("examples/"))
    return str(path) if word.endswith(path.name) else word
