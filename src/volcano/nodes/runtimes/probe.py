"""Which runtimes this machine allows: each is tried, and the refusal of one that is not possible is kept in words."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import volcano
from volcano.nodes.shim.specs import Mode

AUTO = "auto"
ENGINES = ("podman", "docker")
RUNTIMES = (*(str(mode) for mode in Mode), *ENGINES)
# Engines are for those who ask for them: they need images.
_PREFERRED = (Mode.NETNS, Mode.USERNS, Mode.PLAIN)
_PATIENCE = 15.0
Run = Callable[[Sequence[str], Mapping[str, str]], "Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a trial program."""

    code: int
    complaint: str = ""


@dataclass(frozen=True, slots=True)
class Possibility:
    """A runtime, and why it is not possible here; no reason when it is."""

    name: str
    obstacle: str = ""

    @property
    def possible(self) -> bool:
        return not self.obstacle


@dataclass(frozen=True, slots=True)
class Choice:
    """The runtime to use, and those that would have come before it with what keeps each from it."""

    name: str
    passed_over: tuple[Possibility, ...] = ()

    @property
    def mode(self) -> Mode | None:
        """The shim's mode; None when the runtime is a container engine."""
        return None if self.name in ENGINES else Mode(self.name)


class NotPossible(Exception):
    """The runtime that was asked for cannot be had on this machine; the message says why and what can."""


def run(command: Sequence[str], environment: Mapping[str, str]) -> Outcome:
    """Runs a trial to its end."""
    try:
        ended = subprocess.run(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome(1, f"no answer within {_PATIENCE:.0f} s")
    except OSError as error:
        return Outcome(1, error.strerror or str(error))
    lines = ended.stderr.decode(errors="replace").strip().splitlines()
    return Outcome(ended.returncode, lines[-1] if lines else "")


def choose(wanted: str = AUTO, *, run: Run = run) -> Choice:
    """The runtime for `--runtime=wanted`. Blocks for the time of the trials: about 0.1 s each."""
    if wanted == AUTO:
        passed_over: list[Possibility] = []
        for mode in _PREFERRED:
            found = probe(str(mode), run=run)
            if found.possible:
                return Choice(found.name, tuple(passed_over))
            passed_over.append(found)
        reasons = "; ".join(f"{found.name}: {found.obstacle}" for found in passed_over)
        raise NotPossible(f"no runtime is possible here ({reasons}); --no-local-node does without")
    if wanted not in RUNTIMES:
        raise NotPossible(f"unknown runtime {wanted!r}; choose from {', '.join((AUTO, *RUNTIMES))}")
    found = probe(wanted, run=run)
    if not found.possible:
        raise NotPossible(
            f"runtime {wanted} is not possible here: {found.obstacle}; --runtime=auto takes what is"
        )
    return Choice(wanted)


def survey(*, run: Run = run) -> list[Possibility]:
    """Every runtime there is, tried."""
    return [probe(name, run=run) for name in RUNTIMES]


def probe(name: str, *, run: Run = run) -> Possibility:
    """One runtime, tried."""
    if not sys.platform.startswith("linux"):
        return Possibility(
            name, "" if name in ENGINES else f"the process runtimes need Linux, not {sys.platform}"
        )
    if name == Mode.PLAIN:
        return Possibility(name)
    if name in ENGINES:
        return _engine(name, run)
    if name == Mode.NETNS and os.geteuid() != 0:
        return Possibility(name, "it needs root")
    source = str(Path(volcano.__file__).parents[1])
    trial = run([sys.executable, "-P", "-m", "volcano.nodes.shim.trial", name], {"PYTHONPATH": source})
    return Possibility(name, "" if trial.code == 0 else _in_words(name, trial.complaint))


def _engine(name: str, run: Run) -> Possibility:
    program = shutil.which(name)
    if program is None:
        return Possibility(name, f"there is no program {name} on PATH")
    answer = run([program, "info"], {})
    return Possibility(name, "" if answer.code == 0 else f"{name} does not answer: {answer.complaint}")


def _in_words(name: str, complaint: str) -> str:
    what = {
        Mode.NETNS: "this machine does not let root make namespaces",
        Mode.USERNS: "user namespaces are refused",
    }
    return f"{what[Mode(name)]}: {complaint or 'the trial ended without a word'}"
