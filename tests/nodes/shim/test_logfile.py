"""A container's log: CRI lines, parts of long lines, rotation, and disk errors."""

import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from volcano.nodes.shim.logfile import MAX_LINE, LogFile

NOW = 1_800_000_000_000_000_042
TIME = "2027-01-15T08:00:00.000000042Z"


def log_at(path: Path, **limits: int) -> LogFile:
    return LogFile(str(path), lambda: NOW, **limits)


def entries(path: Path) -> list[tuple[str, str, bytes]]:
    found = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        time, stream, tag, text = line.split(b" ", 3)
        assert time.decode() == TIME
        found.append((stream.decode(), tag.decode(), text))
    return found


def test_each_line_is_an_entry_with_its_time_and_stream(tmp_path: Path) -> None:
    log = log_at(tmp_path / "deep" / "0.log")
    log.write("stdout", b"one\n\ntwo ")
    log.write("stderr", b"bad\n")
    log.write("stdout", b"halves\n")
    log.close()
    assert (tmp_path / "deep" / "0.log").read_text() == (
        f"{TIME} stdout F one\n{TIME} stdout F \n{TIME} stderr F bad\n{TIME} stdout F two halves\n"
    )


def test_a_whole_line_is_on_disk_at_once_and_an_unfinished_one_at_the_end(tmp_path: Path) -> None:
    log = log_at(tmp_path / "0.log")
    log.write("stdout", b"line\nprompt> ")
    assert entries(tmp_path / "0.log") == [("stdout", "F", b"line")]
    log.close()
    assert entries(tmp_path / "0.log")[1:] == [("stdout", "P", b"prompt> ")]


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.sampled_from(["stdout", "stderr"]), st.integers(0, 3 * MAX_LINE), st.booleans()),
        max_size=12,
    )
)
def test_the_log_gives_back_every_byte_of_each_stream(pieces: list[tuple[str, int, bool]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "0.log")
        log = log_at(path)
        written = {"stdout": b"", "stderr": b""}
        for stream, length, newline in pieces:
            text = bytes(65 + at % 26 for at in range(length)) + (b"\n" if newline else b"")
            written[stream] += text
            log.write(stream, text)
        log.close()
        found = entries(path) if path.exists() else []
        for stream, text in written.items():
            ours = [entry for entry in found if entry[0] == stream]
            assert b"".join(body + (b"\n" if tag == "F" else b"") for _, tag, body in ours) == text
        assert all(len(body) <= MAX_LINE for _, _, body in found)


def test_logs_are_rotated_and_bounded(tmp_path: Path) -> None:
    log = log_at(tmp_path / "0.log", size=1000, files=3)
    for number in range(200):
        log.write("stdout", f"line {number:03}\n".encode())
    log.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.log", "0.log.1", "0.log.2"]
    assert all(path.stat().st_size <= 1100 for path in tmp_path.iterdir())
    kept = [text for name in ("0.log.2", "0.log.1", "0.log") for _, _, text in entries(tmp_path / name)]
    assert kept == [f"line {number:03}".encode() for number in range(200 - len(kept), 200)]


def test_a_log_that_is_there_already_is_continued(tmp_path: Path) -> None:
    for text in (b"one\n", b"two\n"):
        log = log_at(tmp_path / "0.log")
        log.write("stdout", text)
        log.close()
    assert [text for _, _, text in entries(tmp_path / "0.log")] == [b"one", b"two"]


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """Writes beyond this fail, as on a full disk: a short write first, then an error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_output_that_does_not_fit_on_the_disk_is_dropped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = log_at(path)
    log.write("stdout", b"before\n")
    with no_file_larger_than(path.stat().st_size + 20):
        log.write("stdout", b"lost\nlost too\n")
        log.write("stdout", b"lost as well\n")
    log.write("stdout", b"after\n")
    log.close()
    assert entries(path) == [
        ("stdout", "F", b"before"),
        ("stderr", "F", b"[3 lines of output were lost: File too large]"),
        ("stdout", "F", b"after"),
    ]


def test_a_log_that_cannot_be_opened_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = log_at(tmp_path / "file" / "0.log")
    log.write("stdout", b"lost\n")
    log.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]
