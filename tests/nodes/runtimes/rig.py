"""Engines to test with: a fake one under either name, and pods to put into them."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

from volcano.nodes.runtimes.engine.engine import EngineRuntime
from volcano.nodes.shim.specs import ContainerSpec, ContainerState, Mount, SandboxSpec

IMAGE = "some/image:1"
POD = "6f1e"


def install(name: str, directory: Path, monkeypatch_env: Callable[[str, str], None], path: str) -> Path:
    """Installs a fake engine on PATH; returns its state directory."""
    state, programs = directory / "fake", directory / "programs"
    state.mkdir()
    programs.mkdir()
    images = {IMAGE: {"Entrypoint": ["echo", "entry"], "Cmd": ["default"], "User": ""}}
    (state / "images.json").write_text(json.dumps(images))
    program = programs / name
    script = Path(__file__).with_name("fake_engine.py")
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {script} {name} "$@"\n')
    program.chmod(0o755)
    monkeypatch_env("PATH", f"{programs}:{path}")
    monkeypatch_env("FAKE_ENGINE", str(state))
    return state


class Fake:
    """State of the fake engine."""

    def __init__(self, name: str, state: Path, directory: Path) -> None:
        self.name = name
        self.state = state
        self.directory = directory

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.state / "calls").read_text().splitlines()]

    @property
    def containers(self) -> list[Path]:
        return list((self.state / "containers").glob("*.json"))

    @property
    def networks(self) -> list[Path]:
        return list((self.state / "networks").glob("*"))

    def refuse(self, *refusals: str) -> None:
        (self.state / "refusals").write_text("\n".join(refusals))


class Rig:
    """A runtime on an engine, with the container exits it reports."""

    def __init__(self, name: str, directory: Path, *, lifeline: bool = False) -> None:
        self.directory = directory
        self.ends: list[ContainerState] = []
        self.runtime = EngineRuntime(name, directory, lifeline)
        self.runtime.on_change(self.ends.append)

    def sandbox(self, pod: str = POD, name: str = "job-worker-0", **more: object) -> SandboxSpec:
        directory = self.directory / "pods" / pod
        directory.mkdir(parents=True, exist_ok=True)
        plain = {
            "hosts": "127.0.0.1\tlocalhost\n{address}\t" + name + "\n",
            "names": (f"{name}.job.ns.svc.local",),
        }
        spec = {"uid": pod, "namespace": "ns", "name": name, "node": "local-0", "directory": str(directory)}
        return SandboxSpec(**{**spec, "hostname": name, **plain, **more})  # type: ignore[arg-type]

    def container(
        self,
        *command: str,
        name: str = "main",
        attempt: int = 0,
        pod: str = POD,
        image: str = IMAGE,
        **more: object,
    ) -> ContainerSpec:
        log = self.directory / "pods" / pod / "containers" / name / f"{attempt}.log"
        mounts: tuple[Mount, ...] = ()
        plain = {"log_path": str(log), "mounts": mounts}
        return ContainerSpec(pod, name, attempt, image, command, **{**plain, **more})  # type: ignore[arg-type]

    async def begin(self) -> None:
        await self.runtime.open()
        await self.runtime.create_sandbox(self.sandbox())

    async def start(self, spec: ContainerSpec) -> ContainerState:
        """Starts a container; the exit of one that has exited already is recorded."""
        state = await self.runtime.start(spec)
        if not state.running:
            self.ends.append(state)
        return state

    async def end_of(self, name: str = "main", attempt: int = 0, pod: str = POD) -> ContainerState:
        """Waits for the exit of a container."""
        for _ in range(1500):
            for state in self.ends:
                if (state.pod, state.name, state.attempt) == (pod, name, attempt):
                    return state
            await asyncio.sleep(0.02)
        raise AssertionError(f"container {name} did not end; told were {self.ends}")

    def log(self, name: str = "main", attempt: int = 0, pod: str = POD) -> list[tuple[str, str]]:
        """The log of a container: stream and text of each line."""
        path = self.directory / "pods" / pod / "containers" / name / f"{attempt}.log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(line.split(" ", 3)[1], line.split(" ", 3)[3]) for line in lines]
