"""The shim's program, `python -m volcano.nodes.shim DIRECTORY --mode MODE`: to the background once it is up."""

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

from volcano.nodes.shim import logfile, place, processes, wire
from volcano.nodes.shim.isolation.base import Isolation
from volcano.nodes.shim.isolation.plain import Plain
from volcano.nodes.shim.loop import Loop
from volcano.nodes.shim.place import LOCK, LOG, SOCKET, WHOAMI
from volcano.nodes.shim.records import Records
from volcano.nodes.shim.server import Settings, ShimServer
from volcano.nodes.shim.specs import Failure, Mode

_LARGEST_LOG = 1 << 20
_DESCRIPTORS = 1 << 16
_LONGEST_COMPLAINT = 20_000  # a pipe takes it whole


@dataclass(frozen=True, slots=True)
class Options:
    directory: str  # the cluster's
    mode: Mode
    lifeline: int | None  # a descriptor; when it reads to its end, so does the shim
    holder: int  # the pid of who holds the other end
    ready: int | None  # a descriptor on which to say that all is well, or what is not
    log_size: int
    log_files: int

    @property
    def place(self) -> str:
        return place.of(self.directory)


def main() -> None:
    options = _options()
    for descriptor in (options.lifeline, options.ready):
        if descriptor is not None:
            os.set_inheritable(descriptor, False)
    if os.fork():
        os._exit(0)
    os.setsid()
    try:
        shim, loop, listener = _prepare(options)
    except (Failure, OSError) as error:
        _say(options, {"error": str(error)})
        sys.exit(1)
    except BaseException:
        _say(options, {"error": traceback.format_exc()[-_LONGEST_COMPLAINT:]})
        raise
    if options.lifeline is not None:
        _hold(options.lifeline, shim, loop)
    gc.collect()
    gc.freeze()  # so that forks share what is here already
    _say(options, {"pid": os.getpid()})
    shim.serve(listener)
    for name in (SOCKET, WHOAMI, LOCK):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(options.place, name))


def _prepare(options: Options) -> tuple[ShimServer, Loop, socket.socket]:
    os.chdir("/")
    _allow_descriptors()
    _lock(options.place)
    _redirect(options.place)
    _sign(options)
    # Before the isolation enters other namespaces, where this directory might look different.
    listener = wire.bind(options.place, SOCKET)
    isolation = _isolation(options)
    isolation.open()
    loop = Loop(time.monotonic, complain)
    shim = ShimServer(
        Settings(options.mode, options.log_size, options.log_files, options.holder),
        loop=loop,
        isolation=isolation,
        records=Records(options.place),
        now=time.time_ns,
        complain=complain,
    )
    shim.take_over()
    loop.every(60.0, lambda: _bound_log(options.place))
    return shim, loop, listener


def complain(what: str, error: BaseException) -> None:
    """One line and a traceback for the shim's own log."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    trace = "".join(traceback.format_exception(error))
    with contextlib.suppress(OSError):
        if os.fstat(2).st_size < 4 * _LARGEST_LOG:
            os.write(2, f"{moment} {what}\n{trace}".encode(errors="replace"))


def _hold(lifeline: int, shim: ShimServer, loop: Loop) -> None:
    def moved() -> None:
        if not os.read(lifeline, 64):
            loop.forget(lifeline)
            shim.end()

    loop.on_readable(lifeline, moved)


def _isolation(options: Options) -> Isolation:
    if options.mode == Mode.PLAIN:
        return Plain(options.directory)
    from volcano.nodes.shim.isolation.namespaces import Namespaces

    isolation: Isolation = Namespaces(options.mode, options.directory)
    return isolation


def _lock(directory: str) -> None:
    """One shim for one directory. The lock is the process's own: forks do not share it, and it ends with it."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    descriptor = os.open(os.path.join(directory, LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise Failure("RuntimeUnavailable", f"{directory}: another shim is at work here") from error


def _allow_descriptors() -> None:
    """Each container needs some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _DESCRIPTORS and (hard > soft or hard == resource.RLIM_INFINITY):
        wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _redirect(directory: str) -> None:
    """Standard output and error go to the shim's log from now on."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    log = os.open(os.path.join(directory, LOG), flags, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def _bound_log(directory: str) -> None:
    if os.fstat(2).st_size > _LARGEST_LOG:
        path = os.path.join(directory, LOG)
        os.replace(path, f"{path}.1")
        _redirect(directory)


def _sign(options: Options) -> None:
    """Says who the shim of this directory is, for those who cannot ask it."""
    pid = os.getpid()
    text = {"pid": pid, "started": processes.start_time(pid), "mode": options.mode, "version": wire.VERSION}
    path = os.path.join(options.place, WHOAMI)
    with open(f"{path}.new", "w") as file:
        json.dump(text, file)
    os.replace(f"{path}.new", path)


def _say(options: Options, message: wire.Message) -> None:
    if options.ready is not None:
        with contextlib.suppress(OSError):
            os.write(options.ready, json.dumps(message).encode() + b"\n")
            os.close(options.ready)


def _options() -> Options:
    parser = argparse.ArgumentParser(prog="volcano.nodes.shim", description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("--mode", type=Mode, choices=list(Mode), required=True)
    parser.add_argument("--lifeline", type=int, metavar="FD")
    parser.add_argument("--holder", type=int, default=0, metavar="PID")
    parser.add_argument("--ready", type=int, metavar="FD")
    parser.add_argument("--log-size", type=int, default=logfile.DEFAULT_SIZE)
    parser.add_argument("--log-files", type=int, default=logfile.DEFAULT_FILES)
    return Options(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
