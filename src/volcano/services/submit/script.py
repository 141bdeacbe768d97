"""Batch scripts: options in `#VC`, `#SBATCH` and `#BSUB` lines, translated to flags of `vcctl submit`."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from volcano.services.errors import InvalidInput, ServiceError

LARGEST = 120_000  # bytes: the text is an argument of the shell, which the kernel limits
SHELLS = ("sh", "bash", "dash", "ksh", "zsh", "python", "python3")
# An option of another system: the flag here, and a function that translates the value.
Translation = tuple[str, Callable[[str], str]]


def same(value: str) -> str:
    return value


def slurm_memory(value: str) -> str:
    """`4G` as `4Gi`; a bare number is in megabytes."""
    found = re.fullmatch(r"(\d+)([KMGT]?)B?", value, re.IGNORECASE)
    if found is None:
        raise InvalidInput(f"{value!r} is not an amount of memory, such as 4G")
    return f"{found[1]}{(found[2] or 'M').upper()}i"


def gpus(value: str) -> str:
    """`gpu:2`, `gpu:a100:2`, `a100:2`, `num=2:mode=shared` or `2` as `2`."""
    found = re.search(r"(?:^|num=|:)(\d+)(?=$|:|,|\()", value)
    if found is None:
        raise InvalidInput(f"{value!r} names no number of GPUs")
    return found[1]


def lsf_minutes(value: str) -> str:
    """`1:30` (hours and minutes) or `90` (minutes) as minutes."""
    hours, colon, minutes = value.partition("/")[0].partition(":")
    return f"{int(hours) * 60 + int(minutes)}m" if colon else f"{int(hours)}m"


def lsf_condition(value: str) -> str:
    """`done(a) && ended(b)` as `afterok:a,afterany:b`."""
    words = {"done": "afterok", "ended": "afterany", "exit": "afternotok"}
    parts = []
    for part in value.split("&&"):
        found = re.fullmatch(r"\s*(done|ended|exit)\(\s*\"?([\w.-]+)\"?\s*\)\s*", part)
        if found is None:
            raise InvalidInput(f"{value!r}: only done(), ended() and exit() joined by && are supported")
        parts.append(f"{words[found[1]]}:{found[2]}")
    return ",".join(parts)


SBATCH: Mapping[str, Translation] = {
    **dict.fromkeys(("--job-name", "-J"), ("--name", same)),
    **dict.fromkeys(("--ntasks", "-n"), ("--workers", same)),
    **dict.fromkeys(("--nodes", "-N"), ("--workers", lambda value: value.partition("-")[0])),
    **dict.fromkeys(("--cpus-per-task", "-c"), ("--cpus", same)),
    "--mem": ("--memory", slurm_memory),
    **dict.fromkeys(("--gres", "--gpus", "-G", "--gpus-per-node", "--gpus-per-task"), ("--gpus", gpus)),
    **dict.fromkeys(("--partition", "-p"), ("--queue", same)),
    **dict.fromkeys(("--time", "-t"), ("--time", same)),
    **dict.fromkeys(("--array", "-a"), ("--array", same)),
    **dict.fromkeys(("--dependency", "-d"), ("--dependency", same)),
    "--qos": ("--priority-class", same),
    "--requeue": ("--requeue", same),
}
BSUB: Mapping[str, Translation] = {
    "-J": ("--name", same),
    "-n": ("--workers", same),
    "-q": ("--queue", same),
    "-W": ("--time", lsf_minutes),
    "-M": ("--memory", slurm_memory),
    "-gpu": ("--gpus", gpus),
    "-w": ("--dependency", lsf_condition),
    "-r": ("--requeue", same),
}
SWITCHES = {"--requeue", "-r", "--no-requeue", "--exclusive", "-x"}
# Options that have no meaning here, and what to use instead.
WITHOUT_EFFECT = {
    **dict.fromkeys(("--output", "-o", "--error", "-e", "-oo", "-eo"), "logs are kept: vcctl job logs NAME"),
    **dict.fromkeys(("--account", "-A", "-P"), "shares belong to queues"),
    **dict.fromkeys(("--mail-user", "--mail-type", "-u", "-B"), "mail is not sent; use vcctl job wait NAME"),
}


@dataclass(slots=True)
class Script:
    """A batch script: flags for `vcctl submit`, its interpreter and text, and remarks for the user."""

    name: str
    interpreter: list[str]
    content: str
    flags: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def read_script(path: Path) -> Script:
    """Raises ServiceError or InvalidInput, naming file and line."""
    try:
        content = path.read_text()
    except UnicodeDecodeError:
        raise ServiceError(f"{path}: is not a text file") from None
    if len(content.encode()) > LARGEST:
        raise ServiceError(
            f"{path}: has more than {LARGEST} bytes; put the program into a file that it calls"
        )
    script = Script(path.name, _interpreter(path, content), content)
    for number, line in enumerate(content.splitlines(), 1):
        found = re.match(r"#(VC|SBATCH|BSUB)\s+(.*)", line)
        if found is None:
            continue
        try:
            words = shlex.split(found[2], comments=True)
            _translate(found[1], words, script)
        except (InvalidInput, ValueError) as error:
            raise InvalidInput(f"{path}:{number}: {error}") from None
    return script


def _interpreter(path: Path, content: str) -> list[str]:
    first = content.splitlines()[0] if content else ""
    words = first.removeprefix("#!").split() if first.startswith("#!") else ["/bin/sh"]
    program = words[-1] if words[0].endswith("/env") else words[0]
    if (
        program.rpartition("/")[2].rstrip("0123456789.") not in SHELLS
        and program.rpartition("/")[2] not in SHELLS
    ):
        raise ServiceError(f"{path}: runs with {program}; a batch script needs one of {', '.join(SHELLS)}")
    return words


def _translate(system: str, words: Sequence[str], script: Script) -> None:
    if system == "VC":
        script.flags += words
        return
    table = SBATCH if system == "SBATCH" else BSUB
    for name, value in _options(words):
        if name in WITHOUT_EFFECT:
            script.remarks.append(f"#{system} {name}: {WITHOUT_EFFECT[name]}")
        elif name not in table:
            script.remarks.append(f"#{system} {name}: not supported, ignored")
        elif name in SWITCHES:
            script.flags.append(table[name][0])
        elif system == "BSUB" and name == "-J" and "[" in value:
            label, _, rest = value.partition("[")
            ids, _, limit = rest.partition("]")
            script.flags += [*(["--name", label] if label else []), "--array", ids + limit]
        else:
            flag, translate = table[name]
            script.flags += [flag, translate(value)]


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options with their values: `--name=value`, `--name value`, `-n value` and `-nvalue`."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            raise InvalidInput(f"{word!r} is not an option")
        if word.startswith("--") and equals:
            yield name, value
        elif word in SWITCHES:
            yield word, ""
        elif not word.startswith("--") and len(word) > 2 and word not in BSUB and word not in WITHOUT_EFFECT:
            yield word[:2], word[2:].removeprefix("=")
        elif rest and not (rest[0].startswith("-") and not rest[0][1:2].isdigit()):
            yield word, rest.pop(0)
        else:
            yield word, ""
