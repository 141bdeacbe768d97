"""The script of CI that installs programs which tests need."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "programs"
PROGRAMS = ("chromium", "initdb", "prometheus", "sshd", "ssh", "slirp4netns", "pasta")


def run(directory: Path, *, installed: tuple[str, ...], apt_get: str = "", user: int = 0) -> tuple[str, str]:
    """Output of the script where these programs are there, and the calls of apt-get, of which `apt_get` is the text."""
    programs = directory / "bin"
    programs.mkdir()
    calls = directory / "calls"
    calls.touch()
    for name in ("bash", "env", "timeout"):
        (programs / name).symlink_to(str(shutil.which(name)))
    for name in installed:
        write(programs / name, "exit 0")
    write(programs / "id", f"echo {user}")
    if apt_get:
        write(programs / "apt-get", f'echo "$@" >> {calls}\n{apt_get}')
    done = subprocess.run(
        [str(programs / "bash"), str(SCRIPT)],
        env={"PATH": str(programs), "WHERE": str(programs)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, calls.read_text()


def write(path: Path, text: str) -> None:
    path.write_text(f"#!{shutil.which('bash')}\n{text}\n")
    path.chmod(0o755)


def test_nothing_is_installed_where_all_programs_are_there(tmp_path: Path) -> None:
    assert run(tmp_path, installed=PROGRAMS, apt_get="exit 0") == ("", "")


def test_root_installs_the_packages_of_missing_programs(tmp_path: Path) -> None:
    output, calls = run(tmp_path, installed=PROGRAMS[2:], apt_get="exit 0")
    assert output == ""
    assert [line.rpartition(" ")[2] for line in calls.splitlines()] == ["update", "chromium", "postgresql"]


def test_a_package_that_cannot_be_installed_is_reported_and_the_others_are_tried(tmp_path: Path) -> None:
    output, calls = run(
        tmp_path, installed=PROGRAMS[3:], apt_get='case "$*" in *chromium|*update) exit 100;; esac'
    )
    assert output == "== cannot install chromium; tests that need it are skipped\n"
    assert calls.splitlines()[-1].endswith("prometheus")


@pytest.mark.parametrize(("apt_get", "user"), [("exit 0", 1000), ("", 0)])
def test_without_apt_get_or_root_missing_packages_are_reported_only(
    tmp_path: Path, apt_get: str, user: int
) -> None:
    output, calls = run(tmp_path, installed=PROGRAMS[1:], apt_get=apt_get, user=user)
    assert output == "== not installed: chromium; tests that need them are skipped\n"
    assert calls == ""
