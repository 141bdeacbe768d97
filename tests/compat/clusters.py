"""A local cluster as its own process, for clients of Kubernetes."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

READY_WITHIN = 30.0


@dataclass(frozen=True, slots=True)
class Running:
    """A running cluster and its kubeconfig."""

    kubeconfig: Path
    log: Path
    process: "subprocess.Popen[bytes]"


@contextmanager
def running_cluster(directory: Path, *arguments: str) -> Iterator[Running]:
    """`volcano up` with these arguments; ends with the block."""
    kubeconfig, log = directory / "kubeconfig", directory / "volcano.log"
    command = [sys.executable, "-m", "volcano.cmd.volcano", "up", "--no-local-node"]
    command += ["--kubeconfig", str(kubeconfig), *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            env={**os.environ, "HOME": str(directory), "XDG_RUNTIME_DIR": str(directory)},
        )
    try:
        deadline = time.monotonic() + READY_WITHIN
        while not kubeconfig.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"volcano up did not start:\n{log.read_text()}")
            time.sleep(0.02)
        yield Running(kubeconfig, log, process)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
