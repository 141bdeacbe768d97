"""Single-threaded event loop of the shim: descriptors, signals and timers."""

import contextlib
import os
import selectors
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

Action = Callable[[], None]


class LogError(Protocol):
    """Writes a constant message with fields and the traceback of an error to the log of the shim."""

    def __call__(self, message: str, error: BaseException, **fields: str) -> None: ...


@dataclass(slots=True)
class _Handlers:
    readable: Action | None = None
    writable: Action | None = None

    @property
    def events(self) -> int:
        return (selectors.EVENT_READ if self.readable else 0) | (
            selectors.EVENT_WRITE if self.writable else 0
        )


@dataclass(slots=True)
class _Timer:
    due: float
    period: float
    action: Action


class EventLoop:
    """Runs handlers until `stop`. An exception of a handler is logged and does not stop the loop."""

    def __init__(self, clock: Callable[[], float], log_error: LogError) -> None:
        self._clock = clock  # monotonic seconds
        self._log_error = log_error
        self._selector = selectors.DefaultSelector()
        self._handlers: dict[int, _Handlers] = {}
        self._signals: dict[int, Action] = {}
        self._timers: list[_Timer] = []
        self._running = False
        self._wakeup_read, self._wakeup_write = os.pipe()
        os.set_blocking(self._wakeup_read, False)
        os.set_blocking(self._wakeup_write, False)

    def on_readable(self, descriptor: int, action: Action | None) -> None:
        """Sets the handler of a descriptor; None removes it, as `forget` does."""
        self._handlers.setdefault(descriptor, _Handlers()).readable = action
        self._register(descriptor)

    def on_writable(self, descriptor: int, action: Action | None) -> None:
        self._handlers.setdefault(descriptor, _Handlers()).writable = action
        self._register(descriptor)

    def forget(self, descriptor: int) -> None:
        """Removes both handlers; must be called before the descriptor is closed."""
        self._handlers[descriptor] = _Handlers()
        self._register(descriptor)

    def on_signal(self, number: int, action: Action) -> None:
        self._signals[number] = action
        signal.signal(number, lambda *_: None)

    def every(self, seconds: float, action: Action) -> None:
        self._timers.append(_Timer(self._clock() + seconds, seconds, action))

    def stop(self) -> None:
        self._running = False

    def run(self) -> None:
        signal.set_wakeup_fd(self._wakeup_write, warn_on_full_buffer=False)
        self.on_readable(self._wakeup_read, self._on_wakeup)
        self._running = True
        while self._running:
            for key, events in self._selector.select(self._timeout()):
                handlers = self._handlers.get(key.fd)
                if handlers and events & selectors.EVENT_READ and handlers.readable:
                    self._run_action(handlers.readable)
                # The first handler may have changed the handlers of this descriptor.
                handlers = self._handlers.get(key.fd)
                if handlers and events & selectors.EVENT_WRITE and handlers.writable:
                    self._run_action(handlers.writable)
            self._run_timers()

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        self._selector.close()
        os.close(self._wakeup_read)
        os.close(self._wakeup_write)

    def _register(self, descriptor: int) -> None:
        events = self._handlers[descriptor].events
        if not events:
            del self._handlers[descriptor]
            with contextlib.suppress(KeyError):
                self._selector.unregister(descriptor)
        elif descriptor in self._selector.get_map():
            self._selector.modify(descriptor, events)
        else:
            self._selector.register(descriptor, events)

    def _on_wakeup(self) -> None:
        for number in set(os.read(self._wakeup_read, 4096)):
            if action := self._signals.get(number):
                self._run_action(action)

    def _timeout(self) -> float | None:
        if not self._timers:
            return None
        return max(min(timer.due for timer in self._timers) - self._clock(), 0)

    def _run_timers(self) -> None:
        now = self._clock()
        for timer in self._timers:
            if now >= timer.due:
                timer.due = now + timer.period
                self._run_action(timer.action)

    def _run_action(self, action: Action) -> None:
        try:
            action()
        except Exception as error:
            self._log_error("event handler failed", error)
