"""In plain mode nothing is mounted: mount paths in commands and variables are replaced instead."""

import pytest

from volcano.nodes.shim.isolation.plain import host_path, substitute_mount_paths
from volcano.nodes.shim.specs import Mount

MOUNTS = (
    Mount("/d/program", "/workspace"),
    Mount("/d/deep", "/workspace/deep"),
    Mount("/d/etc", "/etc/volcano/"),
)


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("/workspace", "/d/program"),
        ("/workspace/train.py", "/d/program/train.py"),
        ("/workspace/deep/x", "/d/deep/x"),
        ("--path=/workspace/a:/etc/volcano/b", "--path=/d/program/a:/d/etc/b"),
        ("cd /workspace; ls '/etc/volcano'", "cd /d/program; ls '/d/etc'"),
        ("/workspaces/train.py", "/workspaces/train.py"),
        ("/my/workspace/train.py", "/my/workspace/train.py"),
        ("/workspace.old", "/workspace.old"),
        ("nothing", "nothing"),
    ],
)
def test_paths_of_mounts_lead_to_where_they_are(argument: str, expected: str) -> None:
    assert substitute_mount_paths(argument, MOUNTS) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("/workspace", "/d/program"),
        ("/workspace/deep/x", "/d/deep/x"),
        ("/etc/volcano/", "/d/etc/"),
        ("/workspace/bin:/usr/bin", "/d/program/bin:/usr/bin"),
        ("/workspaces", ""),
        ("see /workspace", ""),
        ("", ""),
    ],
)
def test_variables_that_begin_with_a_mount_path_lead_to_where_it_is(value: str, expected: str) -> None:
    assert host_path(value, MOUNTS) == expected
