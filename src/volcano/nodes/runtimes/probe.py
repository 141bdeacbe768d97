"""Probes which runtimes work on this machine and chooses one."""

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
# Engines are never chosen automatically: they need images.
_PREFERRED = (Mode.NETNS, Mode.USERNS, Mode.PLAIN)
_PROBE_TIMEOUT = 15.0
Run = Callable[[Sequence[str], Mapping[str, str]], "ProgramResult"]


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """Exit code and last error line of a probe program."""

    code: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """A runtime with the reason why it is not available; empty when it is."""

    name: str
    reason: str = ""

    @property
    def available(self) -> bool:
        return not self.reason


@dataclass(frozen=True, slots=True)
class RuntimeChoice:
    """The chosen runtime, and the preferred ones that are not available."""

    name: str
    unavailable: tuple[ProbeResult, ...] = ()

    @property
    def mode(self) -> Mode | None:
        """Mode of the shim; None when the runtime is a container engine."""
        return None if self.name in ENGINES else Mode(self.name)


class RuntimeNotAvailable(Exception):
    """The requested runtime does not work on this machine; the message says why and what does."""


def run(command: Sequence[str], environment: Mapping[str, str]) -> ProgramResult:
    """Runs a probe program."""
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
    """Chooses the runtime for `--runtime=wanted`. Blocks while probing: about 0.1 s each."""
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
    """Probes one runtime."""
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
