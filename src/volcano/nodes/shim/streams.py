"""Output of a container: from its pipes or terminal to its log and to attached clients."""

import contextlib
import errno
import os
from collections import deque

from volcano.nodes.shim.logfile import LogFile
from volcano.nodes.shim.loop import EventLoop

_READ_SIZE = 64 << 10
_MAX_BUFFERED = 1 << 20


class AttachPipe:
    """Pipe to an attached client. A slow reader loses output; the container never blocks on it."""

    def __init__(self, loop: EventLoop, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._loop = loop
        self._descriptor = descriptor
        self._buffered: deque[bytes] = deque()
        self._size = 0
        self._ending = False
        # A write end is reported as readable when its reader has closed it.
        loop.on_readable(descriptor, self.close)

    @property
    def open(self) -> bool:
        return self._descriptor >= 0

    def write(self, text: bytes) -> None:
        if self.open and self._size + len(text) <= _MAX_BUFFERED:
            self._buffered.append(text)
            self._size += len(text)
            self._drain()

    def end(self) -> None:
        """Closes the pipe once the buffered output has been read."""
        self._ending = True
        self._drain()

    def close(self) -> None:
        if self.open:
            self._loop.forget(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
            self._buffered.clear()

    def _drain(self) -> None:
        try:
            while self.open and self._buffered:
                sent = os.write(self._descriptor, self._buffered[0])
                self._size -= sent
                rest = self._buffered.popleft()[sent:]
                if rest:
                    self._buffered.appendleft(rest)
        except BlockingIOError:
            self._loop.on_writable(self._descriptor, self._drain)
            return
        except OSError:  # the reader closed it
            self.close()
        if self.open and self._ending:
            self.close()
        elif self.open:
            self._loop.on_writable(self._descriptor, None)


class Output:
    """One output stream of a container, read until end of file. Owns the descriptor."""

    def __init__(self, loop: EventLoop, descriptor: int, name: str, log: LogFile | None) -> None:
        os.set_blocking(descriptor, False)
        self._loop = loop
        self._descriptor = descriptor
        self._name = name
        self._log = log
        self._attached: list[AttachPipe] = []
        loop.on_readable(descriptor, self._pump)

    @property
    def descriptor(self) -> int:
        return self._descriptor

    def attach(self) -> int:
        """Returns a new descriptor that receives the output from now on."""
        reading, writing = os.pipe()
        pipe = AttachPipe(self._loop, writing)
        self._attached = [*(pipe for pipe in self._attached if pipe.open), pipe]
        if self._descriptor < 0:
            pipe.end()
        return reading

    def finish(self) -> None:
        """Reads what is left after the last writer has exited, and closes."""
        while self._descriptor >= 0 and self._read():
            pass
        self._close()

    def _pump(self) -> None:
        self._read()

    def _read(self) -> bool:
        try:
            text = os.read(self._descriptor, _READ_SIZE)
        except BlockingIOError:
            return False
        except OSError as error:  # EIO: no process has the terminal open
            text = b""
            if error.errno != errno.EIO:
                self._close()
                return False
        if not text:
            # Every writer has closed it, though the container may still run.
            self._loop.on_readable(self._descriptor, None)
            return False
        if self._log:
            self._log.write(self._name, text)
        for pipe in self._attached:
            pipe.write(text)
        return True

    def _close(self) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(KeyError):
                self._loop.forget(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
        for pipe in self._attached:
            pipe.end()
        self._attached.clear()
