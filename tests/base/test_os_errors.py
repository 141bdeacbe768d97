"""Operating system errors are sentences that say what to do."""

import errno
import os
import socket

import pytest

from volcano.base.os_errors import explain_bind_error, explain_os_error


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (errno.ENOSPC, "FILE: no space left on the disk; free some space"),
        (errno.EACCES, "FILE: permission denied; check its owner and mode"),
        (errno.ENOENT, "FILE: no such file or directory; check the path"),
        (errno.EMFILE, "FILE: too many open files; raise the limit with `ulimit -n`"),
        (errno.ECONNREFUSED, "FILE: connection refused: no server listens there"),
    ],
)
def test_errors_say_what_to_do(number: int, text: str) -> None:
    assert explain_os_error(OSError(number, os.strerror(number), "FILE")).startswith(text)


@pytest.mark.parametrize("number", sorted(errno.errorcode))
def test_no_message_contains_an_error_number(number: int) -> None:
    for error in (OSError(number, os.strerror(number)), OSError(number, os.strerror(number), "FILE")):
        assert "Errno" not in explain_os_error(error)
        assert explain_os_error(error)


def test_a_port_is_named() -> None:
    used = OSError(errno.EADDRINUSE, "in use")
    assert explain_bind_error(used, "127.0.0.1", 8080).startswith(
        "cannot listen on 127.0.0.1:8080: address already in use; choose another port"
    )
    denied = OSError(errno.EACCES, "denied")
    assert "ports below 1024 need root" in explain_bind_error(denied, "127.0.0.1", 80)


def test_names_that_cannot_be_resolved_are_explained() -> None:
    error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert explain_os_error(error, "host.example") == (
        "host.example: name cannot be resolved; check its spelling and the DNS configuration"
    )
