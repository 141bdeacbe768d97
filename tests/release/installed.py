"""Builds the distributions of this working tree and installs the wheel in an environment of its own."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).parents[2]
BUILD_SECONDS = 600


@dataclass(frozen=True)
class Installed:
    """A wheel in a virtual environment, and a directory outside the repository to work in."""

    wheel: Path
    source: Path
    programs: Path
    directory: Path

    def run(self, program: str, *words: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "HOME": str(self.directory),
            "LANG": "C.UTF-8",
        }
        return subprocess.run(
            [str(self.programs / program), *words],
            cwd=self.directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )


def install(directory: Path) -> Installed:
    """The wheel is built from the source distribution, so both are complete if it works."""
    tracked = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=TOP).split("\0")
    copy = directory / "tree"
    for name in filter(None, tracked):
        if (TOP / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, copy / name)
    built = directory / "dist"
    commit = run("git", "rev-parse", "HEAD", cwd=TOP).strip()
    run(sys.executable, "-m", "build", "--outdir", str(built), str(copy), VOLCANO_COMMIT=commit)
    (wheel,) = built.glob("*.whl")
    (source,) = built.glob("*.tar.gz")
    run(sys.executable, "-m", "venv", str(directory / "environment"))
    programs = directory / "environment" / "bin"
    constraints = str(TOP / "constraints.txt")
    run(str(programs / "python"), "-m", "pip", "install", "--quiet", "-c", constraints, f"{wheel}[dashboard]")
    work = directory / "work"
    work.mkdir()
    return Installed(wheel, source, programs, work)


def run(*command: str, cwd: Path | None = None, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout
