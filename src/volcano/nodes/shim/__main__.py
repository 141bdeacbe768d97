"""The program of the shim, `python -m volcano.nodes.shim DIRECTORY --mode MODE`; forks to the background."""

import argparse
import contextlib
import fcntl
import gc
import json
import os
import resource
import socket
import sys
import time
import traceback
from dataclasses import dataclass

from volcano.nodes.shim import logfile, processes, wire
from volcano.nodes.shim.isolation.base import Isolation
from volcano.nodes.shim.isolation.plain import PlainIsolation
from volcano.nodes.shim.loop import EventLoop
from volcano.nodes.shim.server import ShimOptions, ShimServer
from volcano.nodes.shim.specs import NAT, NO_NETWORK, POD_NETWORKS, Failure, Mode
from volcano.nodes.shim.state_store import LOCK, LOG, PID_FILE, SOCKET, StateStore, shim_directory

_MAX_LOG_SIZE = 1 << 20
_MAX_DESCRIPTORS = 1 << 16
_MAX_ERROR_SIZE = 20_000  # fits into a pipe buffer


@dataclass(frozen=True, slots=True)
class Arguments:
    directory: str  # the cluster's data directory
    mode: Mode
    lifeline: int | None  # a descriptor; the shim shuts down when it reads end of file
    holder: int  # pid of the process that holds the other end of the lifeline
    ready: int | None  # a descriptor on which the shim reports that it is ready, or the error
    log_size: int
    log_files: int
    pod_network: str

    @property
    def shim_directory(self) -> str:
        return shim_directory(self.directory)


def main() -> None:
    arguments = _parse_arguments()
    for descriptor in (arguments.lifeline, arguments.ready):
        if descriptor is not None:
            os.set_inheritable(descriptor, False)
    if os.fork():
        os._exit(0)
    os.setsid()
    processes.restore_ignored_signals()
    try:
        server, loop, listener = _prepare(arguments)
    except (Failure, OSError) as error:
        _report(arguments, {"error": str(error)})
        sys.exit(1)
    except Exception:
        _report(arguments, {"error": traceback.format_exc()[-_MAX_ERROR_SIZE:]})
        raise
    if arguments.lifeline is not None:
        _watch_lifeline(arguments.lifeline, server, loop)
    gc.collect()
    gc.freeze()  # so that forks share existing objects
    _report(arguments, {"pid": os.getpid()})
    server.serve(listener)
    for name in (SOCKET, PID_FILE, LOCK):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(arguments.shim_directory, name))


def _prepare(arguments: Arguments) -> tuple[ShimServer, EventLoop, socket.socket]:
    os.chdir("/")
    _raise_descriptor_limit()
    _lock(arguments.shim_directory)
    _redirect_output(arguments.shim_directory)
    _write_pid_file(arguments)
    # Before the isolation joins other namespaces, in which this path may resolve differently.
    listener = wire.bind(arguments.shim_directory, SOCKET)
    isolation = _isolation(arguments)
    isolation.open()
    loop = EventLoop(time.monotonic, log_error)
    server = ShimServer(
        ShimOptions(arguments.mode, arguments.log_size, arguments.log_files, arguments.holder),
        loop=loop,
        isolation=isolation,
        store=StateStore(arguments.shim_directory),
        now=time.time_ns,
        log_error=log_error,
    )
    server.load_state()
    loop.every(60.0, lambda: _rotate_log(arguments.shim_directory))
    return server, loop, listener


def log_error(message: str, error: BaseException, **fields: str) -> None:
    """Writes one line and a traceback to the log of the shim."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = " ".join([message, *(f"{name}={value}" for name, value in fields.items())])
    trace = "".join(traceback.format_exception(error))
    with contextlib.suppress(OSError):
        if os.fstat(2).st_size < 4 * _MAX_LOG_SIZE:
            os.write(2, f"{moment} {line}\n{trace}".encode(errors="replace"))


def _watch_lifeline(lifeline: int, server: ShimServer, loop: EventLoop) -> None:
    def on_readable() -> None:
        if not os.read(lifeline, 64):
            loop.forget(lifeline)
            server.shut_down()

    loop.on_readable(lifeline, on_readable)


def _isolation(arguments: Arguments) -> Isolation:
    if arguments.mode == Mode.PLAIN:
        return PlainIsolation(arguments.directory)
    from volcano.nodes.shim.isolation.namespaces import NamespaceIsolation

    isolation: Isolation = NamespaceIsolation(
        arguments.mode, arguments.directory, nat=arguments.pod_network == NAT
    )
    return isolation


def _lock(directory: str) -> None:
    """Allows one shim per directory, by a POSIX lock: forks do not inherit it, and it ends with this process."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    descriptor = os.open(os.path.join(directory, LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise Failure("RuntimeUnavailable", f"{directory}: another shim is running") from error


def _raise_descriptor_limit() -> None:
    """Raises the soft limit: each container needs several descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _MAX_DESCRIPTORS and (hard > soft or hard == resource.RLIM_INFINITY):
        wanted = _MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MAX_DESCRIPTORS)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _redirect_output(directory: str) -> None:
    """Redirects standard output and error to the log of the shim."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    log = os.open(os.path.join(directory, LOG), flags, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def _rotate_log(directory: str) -> None:
    if os.fstat(2).st_size > _MAX_LOG_SIZE:
        path = os.path.join(directory, LOG)
        os.replace(path, f"{path}.1")
        _redirect_output(directory)


def _write_pid_file(arguments: Arguments) -> None:
    """Writes the file by which other processes find the shim of this directory without connecting to it."""
    pid = os.getpid()
    text = {"pid": pid, "started": processes.start_time(pid), "mode": arguments.mode, "version": wire.VERSION}
    path = os.path.join(arguments.shim_directory, PID_FILE)
    with open(f"{path}.new", "w") as file:
        json.dump(text, file)
    os.replace(f"{path}.new", path)


def _report(arguments: Arguments, message: wire.Message) -> None:
    if arguments.ready is not None:
        with contextlib.suppress(OSError):
            os.write(arguments.ready, json.dumps(message).encode() + b"\n")
            os.close(arguments.ready)


def _parse_arguments() -> Arguments:
    parser = argparse.ArgumentParser(prog="volcano.nodes.shim", description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("--mode", type=Mode, choices=list(Mode), required=True)
    parser.add_argument("--lifeline", type=int, metavar="FD")
    parser.add_argument("--holder", type=int, default=0, metavar="PID")
    parser.add_argument("--ready", type=int, metavar="FD")
    parser.add_argument("--log-size", type=int, default=logfile.DEFAULT_SIZE)
    parser.add_argument("--log-files", type=int, default=logfile.DEFAULT_FILES)
    parser.add_argument("--pod-network", choices=POD_NETWORKS, default=NO_NETWORK)
    return Arguments(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
