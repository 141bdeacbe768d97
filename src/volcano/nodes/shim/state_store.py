"""State of the shim on disk: sandboxes and container states, which survive the shim.

`state/<pod uid>/sandbox.json` and `state/<pod uid>/<container>.<attempt>.json`. A file is replaced by
renaming, and written before the state is reported. Nothing is synced: containers do not survive a crash of
the machine either.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from volcano.nodes.shim import wire
from volcano.nodes.shim.specs import ContainerState, SandboxSpec, SandboxState

# Files are padded to one size, so that on a full disk the final state can overwrite the first one.
_RECORD_SIZE = 2048
_SANDBOX = "sandbox.json"
# Files of the shim's directory.
SOCKET = "shim.sock"
LOG = "shim.log"
PID_FILE = "shim.json"  # pid, start time, mode and version
LOCK = "shim.lock"


def shim_directory(directory: str) -> str:
    """The directory of the shim in a cluster's data directory."""
    return os.path.join(directory, "shim")


@dataclass(frozen=True, slots=True)
class StoredState:
    """Contents of the store."""

    sandboxes: tuple[SandboxState, ...]
    containers: tuple[ContainerState, ...]


class StateStore:
    """Saved states; the shim is the only writer."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, "state")

    def save_sandbox(self, spec: SandboxSpec, address: str) -> None:
        self._write(spec.uid, _SANDBOX, wire.to_json(sandbox_state(spec, address)))

    def save_container(self, state: ContainerState) -> None:
        self._write(state.pod, f"{state.name}.{state.attempt}.json", wire.to_json(state))

    def delete_container(self, state: ContainerState) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._directory, state.pod, f"{state.name}.{state.attempt}.json"))

    def delete_sandbox(self, pod: str) -> None:
        """Deletes the sandbox; the states of its containers are kept."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._directory, pod, _SANDBOX))

    def delete_pod(self, pod: str) -> None:
        shutil.rmtree(os.path.join(self._directory, pod), ignore_errors=True)

    def delete_all(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    def load(self) -> StoredState:
        """Returns every readable state; files torn by a full disk are ignored."""
        sandboxes: list[SandboxState] = []
        containers: list[ContainerState] = []
        for name, content in self._contents():
            with contextlib.suppress(TypeError):
                if name == _SANDBOX:
                    sandboxes.append(SandboxState(**content))
                else:
                    containers.append(ContainerState(**content))
        return StoredState(tuple(sandboxes), tuple(containers))

    def _contents(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for folder, _, names in sorted(os.walk(self._directory)):
            for name in sorted(names):
                if name.endswith(".json"):
                    with (
                        contextlib.suppress(OSError, ValueError),
                        open(os.path.join(folder, name), "rb") as file,
                    ):
                        yield name, json.loads(file.read())

    def _write(self, pod: str, name: str, content: dict[str, Any]) -> None:
        folder = os.path.join(self._directory, pod)
        text = json.dumps(content).encode().ljust(_RECORD_SIZE)
        temporary = os.path.join(folder, f".{name}")
        target = os.path.join(folder, name)
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            _write_all(temporary, text, os.O_CREAT | os.O_TRUNC)
            os.replace(temporary, target)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            if not os.path.exists(target):
                raise
            _write_all(target, text, 0)


def sandbox_state(spec: SandboxSpec, address: str) -> SandboxState:
    return SandboxState(spec.uid, spec.namespace, spec.name, spec.node, spec.directory, address)


def _write_all(path: str, text: bytes, flags: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | flags, 0o600)
    try:
        if os.write(descriptor, text) != len(text):
            raise OSError(28, "no space left on device", path)
    finally:
        os.close(descriptor)
