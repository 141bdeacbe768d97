"""Files that .gitignore excludes are not listed; git itself is the judge."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from volcano.services.submit.gitignore import ALWAYS_IGNORED, listed_files

PATHS = (
    "a.py", "b.log", "data/a.py", "data/raw/x.bin", "data/raw/y.csv", "build/out/a.o", "src/build/keep.txt", 
    "src/a b.txt",
    "doc/[x].md", "doc/!bang", "doc/#hash", "logs/1.log", "logs/deep/er/2.log",
)  # fmt: skip
LINES = st.sampled_from(
    (
        "*.log", "!1.log", "build/", "/build", "data/*", "!data/raw/", "data/**", "**/raw", "a/**/b", "logs/**/2.log",
        "a.*", "# comment", "", "\\#hash", "\\!bang", "src/*.txt", "*.t?t", "[ab].py", "[!a].log",
        "doc/\\[x\\].md", "trailing ",
        "data/raw", "/*.py", "**", "**/deep/**", "x.bin", "[]-a]", "!/src", "*/a.py", "raw/",
    )
)  # fmt: skip


def by_git(directory: Path) -> list[str]:
    subprocess.run(["git", "init", "-q", "."], cwd=directory, check=True)
    listing = subprocess.run(
        ["git", "-c", "core.excludesFile=", "ls-files", "-z", "--others", "--exclude-standard"],
        cwd=directory, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return sorted(name for name in listing.stdout.split("\0") if name)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(top=st.lists(LINES, max_size=5), nested=st.lists(LINES, max_size=3))
def test_the_same_files_as_git_s_are_listed(tmp_path: Path, top: list[str], nested: list[str]) -> None:
    root = tmp_path / "repository"
    shutil.rmtree(root, ignore_errors=True)
    for path in PATHS:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    (root / ".gitignore").write_text("\n".join(top) + "\n")
    (root / "data/.gitignore").write_text("\n".join(nested) + "\n")
    assert sorted(path.relative_to(root).as_posix() for path in listed_files(root)) == by_git(root)


def test_rules_of_the_repository_above_apply(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("*.bin\n/project/only-here\n")
    project = tmp_path / "project"
    project.mkdir()
    for name in ("a.bin", "only-here", "train.py"):
        (project / name).touch()
    assert [path.name for path in listed_files(project)] == ["train.py"]


def test_environments_caches_and_git_s_files_are_never_listed(tmp_path: Path) -> None:
    for name in (*ALWAYS_IGNORED, "my-environment"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    (tmp_path / "my-environment" / "pyvenv.cfg").touch()
    (tmp_path / "train.py").touch()
    assert [path.name for path in listed_files(tmp_path)] == ["train.py"]


def test_links_are_listed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(".")
    assert [path.name for path in listed_files(tmp_path)] == ["loop"]
