"""A directory is packed in parts that fit in objects, or rejected with the reason."""

import io
import os
import random
import tarfile
from pathlib import Path

import pytest

from volcano.services.errors import ServiceError
from volcano.services.submit.upload import PART_SIZE, format_size, pack


def unpacked(parts: list[bytes]) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(b"".join(parts)), mode="r:gz")


def test_a_directory_is_packed_without_what_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "module.py").write_text("x = 1\n")
    (tmp_path / "run.sh").write_text("echo\n")
    (tmp_path / "run.sh").chmod(0o750)
    (tmp_path / "data.bin").write_bytes(b"ignored")
    (tmp_path / ".gitignore").write_text("*.bin\n")
    archive = pack(tmp_path)
    with unpacked(list(archive.parts)) as content:
        assert sorted(content.getnames()) == [".gitignore", "pkg/module.py", "run.sh"]
        modes = {entry.name: (entry.mode, entry.uid, entry.uname) for entry in content}
    assert modes["run.sh"] == (0o755, 0, "")
    assert modes["pkg/module.py"] == (0o644, 0, "")
    assert archive.files == 3


def test_large_directories_are_packed_in_several_parts(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(random.Random(1).randbytes(2 * PART_SIZE))
    archive = pack(tmp_path)
    assert len(archive.parts) == 3
    assert max(map(len, archive.parts)) == PART_SIZE
    with unpacked(list(archive.parts)) as content:
        assert content.getmember("weights").size == 2 * PART_SIZE


def test_a_directory_over_the_limit_is_rejected_with_its_largest_files(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(os.urandom(10_000))
    (tmp_path / "train.py").write_text("pass\n")
    with pytest.raises(
        ServiceError, match=r"too large: .* compressed, at most 1\.0 KiB; largest files: weights"
    ):
        pack(tmp_path, max_size=1024)


def test_sparse_content_is_rejected_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "disk.img").open("wb") as file:
        file.truncate(300 << 20)
    with pytest.raises(
        ServiceError, match=r"300\.0 MiB in 1 files, at most 256\.0 MiB; largest files: disk\.img"
    ):
        pack(tmp_path)


def test_unreadable_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("x")
    real = open

    def fail(path: object, *rest: object, **named: object) -> object:
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied")
        return real(path, *rest, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(tarfile, "bltn_open", fail)
    with pytest.raises(ServiceError, match=r"--upload: .*/secret: Permission denied"):
        pack(tmp_path)


def test_sizes_are_written_as_users_expect() -> None:
    assert [format_size(size) for size in (0, 1023, 1536, 5 << 20, 3 << 30)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "5.0 MiB",
        "3.0 GiB",
    ]
