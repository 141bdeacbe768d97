"""Starts a shim, finds a running one, and removes what one left behind."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import volcano
from volcano.base.clock import Clock
from volcano.nodes.shim import logfile, processes, wire
from volcano.nodes.shim.isolation.plain import kill_leftover_processes
from volcano.nodes.shim.isolation.uplink import restore_forwarding
from volcano.nodes.shim.specs import NO_NETWORK, Failure, Mode
from volcano.nodes.shim.state_store import PID_FILE, StateStore, shim_directory

_MODULE = "volcano.nodes.shim"
_TIMEOUT = 30.0
_POLL_INTERVAL = 0.02


@dataclass(frozen=True, slots=True)
class ShimLaunch:
    """Options for starting a shim."""

    directory: Path
    mode: Mode
    lifeline: bool = False
    log_size: int = logfile.DEFAULT_SIZE
    log_files: int = logfile.DEFAULT_FILES
    pod_network: str = NO_NETWORK


async def launch(options: ShimLaunch) -> int | None:
    """Starts a shim and waits until it is ready; returns the write end of the lifeline, where requested."""
    options.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    ready, ready_write = os.pipe()
    lifeline_read, lifeline_write = os.pipe() if options.lifeline else (-1, -1)
    inherited = [ready_write, *([lifeline_read] if options.lifeline else [])]
    command = [sys.executable, "-P", "-m", _MODULE, str(options.directory), f"--mode={options.mode}"]
    command += [
        f"--ready={ready_write}",
        f"--log-size={options.log_size}",
        f"--log-files={options.log_files}",
        f"--pod-network={options.pod_network}",
    ]
    command += [f"--lifeline={lifeline_read}", f"--holder={os.getpid()}"] if options.lifeline else []
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
    with contextlib.ExitStack() as on_failure:
        if options.lifeline:
            on_failure.callback(os.close, lifeline_write)
        message = await asyncio.to_thread(_wait_until_ready, ready, first)
        if "pid" not in message:
            reason = message.get("error") or "it ended before it was ready"
            raise Failure("RuntimeUnavailable", f"the shim in {options.directory} did not start: {reason}")
        on_failure.pop_all()
    return lifeline_write if options.lifeline else None


def _wait_until_ready(ready: int, first: "subprocess.Popen[bytes]") -> wire.Message:
    """Waits for the shim's report; the started process forks the shim and exits at once."""
    with open(ready, "rb") as pipe:
        text = pipe.readline()
    _, stderr = first.communicate(timeout=_TIMEOUT)
    return json.loads(text) if text else {"error": stderr.decode(errors="replace").strip()}


def shim_pid(directory: Path) -> int:
    """Pid of the running shim of a directory; 0 when there is none."""
    try:
        content = json.loads(_pid_file(directory).read_text())
        pid, started = int(content["pid"]), int(content["started"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    alive = processes.start_time(pid) == started and _MODULE in processes.command_line(pid)
    return pid if alive else 0


async def wait_for_exit(pid: int, clock: Clock, seconds: float) -> bool:
    """Waits for a process that is not a child of this one; False when it has not exited in time."""
    started = processes.start_time(pid)
    for _ in range(int(seconds / _POLL_INTERVAL)):
        if not started or processes.start_time(pid) != started:
            return True
        await clock.sleep(_POLL_INTERVAL)
    return False


async def cleanup(directory: Path, clock: Clock) -> list[str]:
    """Stops a shim, kills leftover processes and removes its files; returns what was removed."""
    removed: list[str] = []
    mode = _mode(directory)
    if pid := shim_pid(directory):
        removed.append(f"shim {pid}")
        await _end(pid, clock)
    leftover_pids = kill_leftover_processes(StateStore(shim_directory(str(directory))).load().sandboxes)
    removed += [f"process {pid}" for pid in leftover_pids]
    if mode not in (None, Mode.PLAIN) and Path(shim_directory(str(directory)), "state").exists():
        # Only the isolation can find the cgroups and mounts of a killed shim.
        lifeline = await launch(ShimLaunch(directory, Mode(mode), lifeline=True))
        assert lifeline is not None
        again = shim_pid(directory)
        os.close(lifeline)
        await wait_for_exit(again, clock, _TIMEOUT)
        removed.append(f"what {mode} had left of its pods")
    if os.geteuid() == 0 and restore_forwarding(str(directory)):
        removed.append("the setting of this host that forwards packets of pods")
    return removed + _remove_files(directory)


async def _end(pid: int, clock: Clock) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        processes.send([pid], number)
        if await wait_for_exit(pid, clock, _TIMEOUT):
            return


def _mode(directory: Path) -> str | None:
    try:
        return str(json.loads(_pid_file(directory).read_text())["mode"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remove_files(directory: Path) -> list[str]:
    removed: list[str] = []
    own = Path(shim_directory(str(directory)))
    for sandbox in StateStore(str(own)).load().sandboxes:
        shutil.rmtree(Path(sandbox.directory, "sandbox"), ignore_errors=True)
        removed.append(f"the sandbox of pod {sandbox.namespace}/{sandbox.name}")
    if own.exists():
        shutil.rmtree(own, ignore_errors=True)
        removed.append(str(own))
    return removed


def _pid_file(directory: Path) -> Path:
    return Path(shim_directory(str(directory)), PID_FILE)
