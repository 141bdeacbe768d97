"""Parses `container inspect`; both engines print the same fields."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from volcano.base.clock import parse_timestamp
from volcano.nodes.runtimes.engine import commands
from volcano.nodes.shim.specs import ContainerState

UNKNOWN_EXIT_CODE = 137
UNKNOWN_EXIT_REASON = "ContainerStatusUnknown"
_ZERO_TIME = "0001-01-01"
_EXTRA_DIGITS = re.compile(r"(\.\d{6})\d+")


@dataclass(frozen=True, slots=True)
class InspectedContainer:
    """A container of an engine. `started` is 0 when it never ran."""

    identifier: str
    labels: Mapping[str, str]
    running: bool
    pid: int
    started: float
    finished: float
    exit_code: int
    out_of_memory: bool
    error: str
    address: str
    directory: str  # the engine's own directory for it, where it is known
    stdin: bool
    terminal: bool

    @property
    def pod(self) -> str:
        return self.labels.get(commands.POD_UID, "")

    @property
    def name(self) -> str:
        return self.labels.get(commands.CONTAINER, "")

    @property
    def attempt(self) -> int:
        return int(self.labels.get(commands.ATTEMPT, "0"))

    @property
    def is_sandbox(self) -> bool:
        return self.labels.get(commands.PART) == commands.SANDBOX_PART

    @property
    def is_container(self) -> bool:
        return self.labels.get(commands.PART) == commands.CONTAINER_PART and self.started > 0

    def state(self) -> ContainerState:
        if self.running:
            return ContainerState(self.pod, self.name, self.attempt, self.started, self.pid)
        reason = "OOMKilled" if self.out_of_memory else "Error" if self.exit_code else "Completed"
        finished = max(self.finished, self.started)
        return ContainerState(
            self.pod, self.name, self.attempt, self.started, 0, finished, self.exit_code, reason, self.error
        )


def parse_inspect(found: Mapping[str, Any]) -> InspectedContainer:
    """Parses one entry of `container inspect`."""
    state = found.get("State") or {}
    config = found.get("Config") or {}
    networks = (found.get("NetworkSettings") or {}).get("Networks") or {}
    addresses = [each.get("IPAddress") for each in networks.values() if each and each.get("IPAddress")]
    running = bool(state.get("Running"))
    return InspectedContainer(
        identifier=str(found.get("Id") or found.get("ID") or ""),
        labels=config.get("Labels") or {},
        running=running,
        pid=int(state.get("Pid") or 0),
        started=parse_engine_time(state.get("StartedAt") or ""),
        finished=0.0 if running else parse_engine_time(state.get("FinishedAt") or ""),
        exit_code=int(state.get("ExitCode") or 0),
        out_of_memory=bool(state.get("OOMKilled")),
        error=str(state.get("Error") or ""),
        address=str(addresses[0]) if addresses else "",
        directory=str(found.get("StaticDir") or ""),
        stdin=bool(config.get("OpenStdin")),
        terminal=bool(config.get("Tty")),
    )


def parse_engine_time(text: str) -> float:
    """Wall time of an engine's timestamp; 0 for the zero time."""
    if not text or text.startswith(_ZERO_TIME):
        return 0.0
    try:
        return parse_timestamp(_EXTRA_DIGITS.sub(r"\1", text))
    except ValueError:
        return 0.0


def unknown_exit(pod: str, name: str, attempt: int, started: float, now: float) -> ContainerState:
    """State of a container whose exit code is unknown."""
    return ContainerState(
        pod, name, attempt, started, 0, max(now, started), UNKNOWN_EXIT_CODE, UNKNOWN_EXIT_REASON
    )
