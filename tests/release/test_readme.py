"""The commands of the README, line by line, from a wheel outside the repository, as root and as another user."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.embedded.program import NOBODY, ROOT, identity_of
from tests.release.installed import TOP, Installed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

BLOCK = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Lines that need what a test does not have: another cluster, an image registry, the repository.
NOT_RUN = ("docker ", "helm ", "vc-", "volcano nodes ")
LAST = "volcano down"
ATTEMPTS, PAUSE, SECONDS = 5, 3.0, 200.0
SHELL = """
set -o pipefail
cd "$HOME"
[ -f variables ] && . ./variables
{line}
code=$?
export -p > variables
exit $code
"""


def commands() -> list[str]:
    """Commands in the blocks of the README, those that end the default cluster last."""
    text = (TOP / "README.md").read_text()
    lines = [
        line[2:].split("   #")[0].strip()
        for block in BLOCK.findall(text)
        for line in block.splitlines()
        if line.startswith("$ ") and not line.startswith("$ #")
    ]
    run = [line for line in lines if not line.startswith(NOT_RUN)]
    return [line for line in run if line != LAST] + ["volcano down --name strict", LAST]


def test_the_readme_has_the_commands_that_matter() -> None:
    found = commands()
    for start in ("volcano examples run", "volcano up", "kubectl apply", "vcctl submit", "volcano config"):
        assert any(start in line for line in found), start
    assert all(".venv" not in line and "examples/" not in line for line in found)


class User:
    """A user with a home of its own and the programs of the wheel."""

    def __init__(self, user: int, home: Path, programs: Path) -> None:
        self.home = home
        self._identity = {**identity_of(user), "cwd": str(home)}
        self._environment = {
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(home),
            "TMPDIR": str(home),
            "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "EDITOR": "true",
            "LANG": "C.UTF-8",
        }

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        line = line.replace("/home/you/", f"{self.home}/")
        return subprocess.run(
            ["bash", "-c", SHELL.replace("{line}", line)],
            env=self._environment, capture_output=True, text=True, check=False, timeout=SECONDS, **self._identity,
        )  # fmt: skip


@pytest.fixture(params=[ROOT, NOBODY], ids=["root", "nobody"])
def user(request: pytest.FixtureRequest, installed: Installed) -> Iterator[User]:
    if os.geteuid() != ROOT:
        pytest.skip("only root can become another user")
    if shutil.which("kubectl", path="/usr/local/bin:/usr/bin:/bin") is None:
        pytest.skip("kubectl is not installed")
    home = Path(tempfile.mkdtemp(prefix="volcano-readme-"))
    home.chmod(0o755)
    try:
        programs = installed.programs if request.param == ROOT else open_to_all(home, installed.wheel)
        os.chown(home, request.param, request.param)
        user = User(request.param, home, programs)
        yield user
        user.run("volcano down --name strict; volcano down")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def open_to_all(directory: Path, wheel: Path) -> Path:
    """Programs of the wheel in an environment that other users may read; skips without a Python for it."""
    python = "/usr/bin/python3"
    supported = subprocess.run(
        [python, "-c", "import sys, ensurepip; sys.exit(sys.version_info < (3, 11))"],
        capture_output=True, check=False,
    )  # fmt: skip
    if supported.returncode:
        pytest.skip(f"{python} is too old or cannot create environments")
    subprocess.run([python, "-m", "venv", str(directory / "environment")], check=True)
    programs = directory / "environment" / "bin"
    subprocess.run(
        [str(programs / "python"), "-m", "pip", "install", "--quiet", f"{wheel}[dashboard]"],
        check=True, env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )  # fmt: skip
    return programs


def test_every_command_of_the_readme_succeeds(user: User) -> None:
    for line in commands():
        for attempt in range(ATTEMPTS):
            done = user.run(line)
            if done.returncode == 0:
                break
            if attempt + 1 < ATTEMPTS:
                time.sleep(PAUSE)  # pods of the line before may not run yet
        else:
            pytest.fail(f"$ {line}\nexit code {done.returncode}\n{done.stdout}\n{done.stderr}")
