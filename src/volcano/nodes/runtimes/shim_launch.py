"""Bringing a shim to life, finding one that lives, and taking away what one has left."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import volcano
from volcano.clock import Clock
from volcano.nodes.shim import logfile, place, processes, wire
from volcano.nodes.shim.isolation.plain import kill_strays
from volcano.nodes.shim.records import Records
from volcano.nodes.shim.specs import Failure, Mode

_MODULE = "volcano.nodes.shim"
_PATIENCE = 30.0
_STEP = 0.02


@dataclass(frozen=True, slots=True)
class Launch:
    """How a shim is to be started."""

    directory: Path
    mode: Mode
    lifeline: bool = False
    log_size: int = logfile.DEFAULT_SIZE
    log_files: int = logfile.DEFAULT_FILES


async def launch(wanted: Launch) -> int | None:
    """Starts a shim and waits until it answers; the lifeline to hold on to, where one was asked for."""
    wanted.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    ready, say_ready = os.pipe()
    their_lifeline, our_lifeline = os.pipe() if wanted.lifeline else (-1, -1)
    inherited = [say_ready, *([their_lifeline] if wanted.lifeline else [])]
    command = [sys.executable, "-P", "-m", _MODULE, str(wanted.directory), f"--mode={wanted.mode}"]
    command += [f"--ready={say_ready}", f"--log-size={wanted.log_size}", f"--log-files={wanted.log_files}"]
    command += [f"--lifeline={their_lifeline}", f"--holder={os.getpid()}"] if wanted.lifeline else []
    source = str(Path(volcano.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        first = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=inherited,
            start_new_session=True,
            env=environment,
        )
    finally:
        for descriptor in inherited:
            os.close(descriptor)
    try:
        message = await asyncio.to_thread(_hear, ready, first)
    except BaseException:
        if wanted.lifeline:
            os.close(our_lifeline)
        raise
    if "pid" not in message:
        if wanted.lifeline:
            os.close(our_lifeline)
        reason = message.get("error") or "it ended before it was ready"
        raise Failure("RuntimeUnavailable", f"the shim in {wanted.directory} did not start: {reason}")
    return our_lifeline if wanted.lifeline else None


def _hear(ready: int, first: "subprocess.Popen[bytes]") -> wire.Message:
    """What the shim says when it is up; the process that was started forks it and ends at once."""
    with open(ready, "rb") as saying:
        text = saying.readline()
    _, complaint = first.communicate(timeout=_PATIENCE)
    return json.loads(text) if text else {"error": complaint.decode(errors="replace").strip()}


def living(directory: Path) -> int:
    """The pid of the shim of a directory; 0 when it is dead or there was none."""
    try:
        whoami = json.loads(_whoami(directory).read_text())
        pid, started = int(whoami["pid"]), int(whoami["started"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    alive = processes.start_time(pid) == started and _MODULE in processes.command_line(pid)
    return pid if alive else 0


async def gone(pid: int, clock: Clock, seconds: float) -> bool:
    """Waits for a process that is not a child of ours to end; False when it has not after so long."""
    started = processes.start_time(pid)
    for _ in range(int(seconds / _STEP)):
        if not started or processes.start_time(pid) != started:
            return True
        await clock.sleep(_STEP)
    return False


async def sweep(directory: Path, clock: Clock) -> list[str]:
    """Ends what is left of a shim and takes its files away; says in words what there was."""
    removed: list[str] = []
    mode = _mode(directory)
    if pid := living(directory):
        removed.append(f"shim {pid}")
        await _end(pid, clock)
    strays = kill_strays(Records(place.of(str(directory))).load().sandboxes)
    removed += [f"process {pid}" for pid in strays]
    if mode not in (None, Mode.PLAIN) and Path(place.of(str(directory)), "state").exists():
        # Only its own isolation knows what a killed shim has left of cgroups and mounts.
        lifeline = await launch(Launch(directory, Mode(mode), lifeline=True))
        assert lifeline is not None
        again = living(directory)
        os.close(lifeline)
        await gone(again, clock, _PATIENCE)
        removed.append(f"what {mode} had left of its pods")
    return removed + _remove_files(directory)


async def _end(pid: int, clock: Clock) -> None:
    for number, patience in ((signal.SIGTERM, _PATIENCE), (signal.SIGKILL, _PATIENCE)):
        processes.send([pid], number)
        if await gone(pid, clock, patience):
            return


def _mode(directory: Path) -> str | None:
    try:
        return str(json.loads(_whoami(directory).read_text())["mode"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remove_files(directory: Path) -> list[str]:
    removed: list[str] = []
    own = Path(place.of(str(directory)))
    for sandbox in Records(str(own)).load().sandboxes:
        shutil.rmtree(Path(sandbox.directory, "sandbox"), ignore_errors=True)
        removed.append(f"the sandbox of pod {sandbox.namespace}/{sandbox.name}")
    if own.exists():
        shutil.rmtree(own, ignore_errors=True)
        removed.append(str(own))
    return removed


def _whoami(directory: Path) -> Path:
    return Path(place.of(str(directory)), place.WHOAMI)
