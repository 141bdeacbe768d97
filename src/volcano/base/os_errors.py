"""Operating system errors as sentences that say what to do, without error numbers."""

import errno
import socket

_SENTENCES = {
    errno.EADDRINUSE: "address already in use; choose another port, or stop the process that listens there",
    errno.EADDRNOTAVAIL: "no address of this host; choose one of its own, such as 127.0.0.1",
    errno.ENOSPC: "no space left on the disk; free some space, or choose a directory on another disk",
    errno.EDQUOT: "disk quota exceeded; free some space, or choose a directory on another disk",
    errno.EROFS: "read-only file system; choose a directory that can be written",
    errno.EACCES: "permission denied; check its owner and mode, or choose another one",
    errno.EPERM: "operation not permitted; check its owner and mode, or choose another one",
    errno.ENOENT: "no such file or directory; check the path",
    errno.ENOTDIR: "a part of the path is not a directory; check the path",
    errno.EISDIR: "a directory, where a file is needed",
    errno.EEXIST: "exists already; remove it, or choose another name",
    errno.EMFILE: "too many open files; raise the limit with `ulimit -n`",
    errno.ENFILE: "too many open files on this host; close some programs",
    errno.ENOMEM: "out of memory; stop some programs",
    errno.ECONNREFUSED: "connection refused: no server listens there; check the address and that it runs",
    errno.EHOSTUNREACH: "host not reachable; check the address and the network",
    errno.ENETUNREACH: "network not reachable; check the address and the network",
    errno.ETIMEDOUT: "no answer in time; check the address and the network",
}
_PRIVILEGED_PORT = "permission denied; ports below 1024 need root, choose a higher one"


def explain_os_error(error: OSError, subject: str = "") -> str:
    """`FILE: no space left on the disk; free some space, ...`. `subject` is named where the error names no file."""
    subject = str(error.filename) if error.filename else subject
    return f"{subject}: {_sentence(error)}" if subject else _sentence(error)


def explain_bind_error(error: OSError, host: str, port: int) -> str:
    """Reason for which a server cannot listen on an address."""
    if error.errno == errno.EACCES and 0 < port < 1024:
        return f"cannot listen on {host}:{port}: {_PRIVILEGED_PORT}"
    return f"cannot listen on {host}:{port}: {_sentence(error)}"


def _sentence(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "name cannot be resolved; check its spelling and the DNS configuration"
    return _SENTENCES.get(error.errno or 0) or error.strerror or str(error)
