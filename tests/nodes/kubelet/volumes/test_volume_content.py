"""Volumes made of objects: content, atomic updates and permissions."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nodes.kubelet.environment.pods import FACTS, config_map, container, encoded, pod, secret
from volcano.kube.api.manifest import Manifest
from volcano.nodes.kubelet.volumes import atomic, payload
from volcano.nodes.kubelet.volumes.fs_group import set_volume_ownership
from volcano.nodes.kubelet.volumes.payload import MountError, VolumeFile

WALL = 1_800_000_000.0
NAMES = st.text(alphabet="ab.", min_size=1, max_size=4).filter(lambda name: not name.startswith(".."))


def shown(directory: Path) -> dict[str, bytes]:
    """The visible content of the volume, without internal names."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for entry in directory.iterdir()
        if not entry.name.startswith("..")
        for path in ([entry] if entry.is_file() else entry.rglob("*"))
        if path.is_file()
    }


def test_items_choose_keys_paths_and_modes() -> None:
    known = {"c": {**config_map("c", a="1", b="2"), "binaryData": {"raw": encoded(b"\xff")}}}
    assert payload.from_config_map(known, {"name": "c"}, 0o644) == {
        "a": VolumeFile(b"1"),
        "b": VolumeFile(b"2"),
        "raw": VolumeFile(b"\xff"),
    }
    items = [{"key": "a", "path": "x/y", "mode": 0o400}, {"key": "raw", "path": "r"}]
    chosen = payload.from_config_map(known, {"name": "c", "items": items}, 0o640)
    assert chosen == {"x/y": VolumeFile(b"1", 0o400), "r": VolumeFile(b"\xff", 0o640)}


def test_what_is_missing_is_named_unless_it_is_optional() -> None:
    known = {"s": secret("s", a="1"), "gone": None}
    with pytest.raises(MountError, match=r'^secret "gone" not found$'):
        payload.from_secret(known, {"secretName": "gone"}, 0o644)
    absent = {"name": "s", "items": [{"key": "k", "path": "k"}, {"key": "a", "path": "a"}]}
    with pytest.raises(MountError, match=r"^references non-existent secret key: k$"):
        payload.from_secret(known, absent, 0o644)
    assert payload.from_secret(known, {**absent, "optional": True}, 0o644) == {"a": VolumeFile(b"1")}
    assert payload.from_secret(known, {"secretName": "gone", "optional": True}, 0o644) == {}


def test_fields_and_resources_become_files() -> None:
    of = pod(container(resources={"limits": {"cpu": "500m"}}), metadata={"labels": {"b": "2", "a": "1"}})
    items: list[Manifest] = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {
            "path": "cpu",
            "mode": 0o400,
            "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu", "divisor": "1m"},
        },
    ]
    files = payload.from_downward_api(of, items, 0o644, FACTS)
    assert files == {"labels": VolumeFile(b'a="1"\nb="2"'), "cpu": VolumeFile(b"500", 0o400)}
    with pytest.raises(MountError, match="unsupported fieldPath"):
        payload.from_downward_api(
            of, [{"path": "x", "fieldRef": {"fieldPath": "status.podIP"}}], 0o644, FACTS
        )


def test_files_change_all_at_once_and_readers_keep_what_they_have_open(tmp_path: Path) -> None:
    assert atomic.write(tmp_path, {"a": VolumeFile(b"1"), "d/b": VolumeFile(b"2", 0o400)}, WALL)
    assert shown(tmp_path) == {"a": b"1", "d/b": b"2"}
    assert os.readlink(tmp_path / "a") == "..data/a"
    assert os.readlink(tmp_path / "..data").startswith("..2027_01_15_08_00_00.")
    assert stat.S_IMODE((tmp_path / "d/b").stat().st_mode) == 0o400
    with (tmp_path / "a").open() as reader:
        assert not atomic.write(tmp_path, {"a": VolumeFile(b"1"), "d/b": VolumeFile(b"2", 0o400)}, WALL)
        assert atomic.write(tmp_path, {"a": VolumeFile(b"3"), "c": VolumeFile(b"4")}, WALL)
        assert reader.read() == "1"
    assert shown(tmp_path) == {"a": b"3", "c": b"4"}
    assert len([each for each in tmp_path.iterdir() if each.name.startswith("..2")]) == 1


@pytest.mark.parametrize("path", ["/a", "../a", "a/../b", "..a", "", "x" * 256])
def test_paths_that_leave_the_volume_or_use_reserved_names_are_rejected(tmp_path: Path, path: str) -> None:
    with pytest.raises(MountError, match="invalid path"):
        atomic.write(tmp_path, {path: VolumeFile(b"")}, WALL)
    assert list(tmp_path.iterdir()) == []


def test_a_path_cannot_be_a_file_and_a_directory(tmp_path: Path) -> None:
    with pytest.raises(MountError, match="conflicting paths"):
        atomic.write(tmp_path, {"a": VolumeFile(b""), "a/b": VolumeFile(b"")}, WALL)
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=40)
@given(st.lists(st.dictionaries(NAMES, st.binary(max_size=3), max_size=4), min_size=1, max_size=4))
def test_whatever_was_there_before_the_volume_shows_the_last_content(
    tmp_path_factory: pytest.TempPathFactory, contents: list[dict[str, bytes]]
) -> None:
    directory = tmp_path_factory.mktemp("volume")
    for content in contents:
        content.pop(".", None)
        atomic.write(directory, {name: VolumeFile(data) for name, data in content.items()}, WALL)
    assert shown(directory) == contents[-1]


def test_a_group_may_read_or_write_what_it_is_given(tmp_path: Path) -> None:
    group = os.getgid()
    (tmp_path / "d").mkdir(mode=0o700)
    (tmp_path / "d/f").write_text("")
    (tmp_path / "d/f").chmod(0o600)
    (tmp_path / "link").symlink_to("d/f")
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.write_text("")
    outside.chmod(0o600)
    (tmp_path / "out").symlink_to(outside)
    set_volume_ownership(tmp_path, group, read_only=True)
    assert stat.S_IMODE(outside.stat().st_mode) == 0o600  # links are not followed
    assert stat.S_IMODE((tmp_path / "d/f").stat().st_mode) == 0o640
    set_volume_ownership(tmp_path, group, read_only=False)
    assert stat.S_IMODE((tmp_path / "d/f").stat().st_mode) == 0o660
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o2770
    (tmp_path / "d/f").chmod(0o600)
    set_volume_ownership(tmp_path, group, read_only=False, only_on_mismatch=True)
    assert stat.S_IMODE((tmp_path / "d/f").stat().st_mode) == 0o600  # the root was right already


def test_other_volumes_mounted_within_one_need_a_place() -> None:
    mounts = [
        {"name": "conf", "mountPath": "/etc/app"},
        {"name": "data", "mountPath": "/etc/app/data/x"},
        {"name": "other", "mountPath": "/etc/apple"},
    ]
    assert list(payload.nested_mount_points(pod(container(volumeMounts=mounts)), "conf")) == ["data/x"]
