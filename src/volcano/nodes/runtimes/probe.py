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
_PROBE_TIMEOUT = 15.0
Run = Callable[[Sequence[str], Mapping[str, str]], "ProgramResult"]


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """What became of a trial program."""

    code: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """A runtime, and why it is not possible here; no reason when it is."""

    name: str
    reason: str = ""

    @property
    def available(self) -> bool:
        return not self.reason


@dataclass(frozen=True, slots=True)
class RuntimeChoice:
    """The runtime to use, and those that would have come before it with what keeps each from it."""

    name: str
    unavailable: tuple[ProbeResult, ...] = ()

    @property
    def mode(self) -> Mode | None:
        """The shim's mode; None when the runtime is a container engine."""
        return None if self.name in ENGINES else Mode(self.name)


class RuntimeNotAvailable(Exception):
    """The runtime that was asked for cannot be had on this machine; the message says why and what can."""


def run(command: Sequence[str], environment: Mapping[str, str]) -> ProgramResult:
    """Runs a trial to its end."""
    try:
        ended = subprocess.run(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_PROBE_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ProgramResult(1, f"no answer within {_PROBE_TIMEOUT:.0f} s")
    except OSError as error:
        return ProgramResult(1, error.strerror or str(error))
    lines = ended.stderr.decode(errors="replace").strip().splitlines()
    return ProgramResult(ended.returncode, lines[-1] if lines else "")


def choose(wanted: str = AUTO, *, run: Run = run) -> RuntimeChoice:
    """The runtime for `--runtime=wanted`. Blocks for the time of the trials: about 0.1 s each."""
    if wanted == AUTO:
        unavailable: list[ProbeResult] = []
        for mode in _PREFERRED:
            found = probe(str(mode), run=run)
            if found.available:
                return RuntimeChoice(found.name, tuple(unavailable))
            unavailable.append(found)
        reasons = "; ".join(f"{found.name}: {found.reason}" for found in unavailable)
        raise RuntimeNotAvailable(f"no runtime is possible here ({reasons}); --no-local-node does without")
    if wanted not in RUNTIMES:
        raise RuntimeNotAvailable(f"unknown runtime {wanted!r}; choose from {', '.join((AUTO, *RUNTIMES))}")
    found = probe(wanted, run=run)
    if not found.available:
        raise RuntimeNotAvailable(
            f"runtime {wanted} is not possible here: {found.reason}; --runtime=auto takes what is"
        )
    return RuntimeChoice(wanted)


def probe(name: str, *, run: Run = run) -> ProbeResult:
    """One runtime, tried."""
    if not sys.platform.startswith("linux"):
        return ProbeResult(
            name, "" if name in ENGINES else f"the process runtimes need Linux, not {sys.platform}"
        )
    if name == Mode.PLAIN:
        return ProbeResult(name)
    if name in ENGINES:
        return _engine(name, run)
    if name == Mode.NETNS and os.geteuid() != 0:
        return ProbeResult(name, "it needs root")
    source = str(Path(volcano.__file__).parents[1])
    result = run(
        [sys.executable, "-P", "-m", "volcano.nodes.shim.isolation.probe", name], {"PYTHONPATH": source}
    )
    return ProbeResult(name, "" if result.code == 0 else _describe(name, result.error))


def _engine(name: str, run: Run) -> ProbeResult:
    program = shutil.which(name)
    if program is None:
        return ProbeResult(name, f"there is no program {name} on PATH")
    answer = run([program, "info"], {})
    return ProbeResult(name, "" if answer.code == 0 else f"{name} does not answer: {answer.error}")


def _describe(name: str, error: str) -> str:
    what = {
        Mode.NETNS: "this machine does not let root make namespaces",
        Mode.USERNS: "user namespaces are refused",
    }
    return f"{what[Mode(name)]}: {error or 'the probe ended without output'}"
