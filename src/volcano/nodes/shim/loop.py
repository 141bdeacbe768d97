"""The shim's one thread: descriptors that are ready, children that have ended, and what is due by the clock."""

import contextlib
import os
import selectors
import signal
from collections.abc import Callable
from dataclasses import dataclass

Action = Callable[[], None]


@dataclass(slots=True)
class _Watch:
    readable: Action | None = None
    writable: Action | None = None

    @property
    def events(self) -> int:
        return (selectors.EVENT_READ if self.readable else 0) | (
            selectors.EVENT_WRITE if self.writable else 0
        )


@dataclass(slots=True)
class _Regular:
    due: float
    period: float
    action: Action


class Loop:
    """Runs until told to stop. An action that raises ends nothing but itself: `complain` hears of it."""

    def __init__(self, clock: Callable[[], float], complain: Callable[[str, BaseException], None]) -> None:
        self._clock = clock  # monotonic seconds
        self._complain = complain
        self._selector = selectors.DefaultSelector()
        self._watched: dict[int, _Watch] = {}
        self._signals: dict[int, Action] = {}
        self._regular: list[_Regular] = []
        self._running = False
        self._wake, self._woken = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._woken, False)

    def on_readable(self, descriptor: int, action: Action | None) -> None:
        """None stops watching; so does `forget`."""
        self._watched.setdefault(descriptor, _Watch()).readable = action
        self._arrange(descriptor)

    def on_writable(self, descriptor: int, action: Action | None) -> None:
        self._watched.setdefault(descriptor, _Watch()).writable = action
        self._arrange(descriptor)

    def forget(self, descriptor: int) -> None:
        """Must be called before a watched descriptor is closed."""
        self._watched[descriptor] = _Watch()
        self._arrange(descriptor)

    def on_signal(self, number: int, action: Action) -> None:
        self._signals[number] = action
        signal.signal(number, lambda *_: None)

    def every(self, seconds: float, action: Action) -> None:
        self._regular.append(_Regular(self._clock() + seconds, seconds, action))

    def stop(self) -> None:
        self._running = False

    def run(self) -> None:
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        self.on_readable(self._wake, self._hear_signals)
        self._running = True
        while self._running:
            for key, events in self._selector.select(self._patience()):
                watch = self._watched.get(key.fd)
                if watch and events & selectors.EVENT_READ and watch.readable:
                    self._try(watch.readable)
                # The first action may have changed what is watched.
                watch = self._watched.get(key.fd)
                if watch and events & selectors.EVENT_WRITE and watch.writable:
                    self._try(watch.writable)
            self._do_what_is_due()

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        self._selector.close()
        os.close(self._wake)
        os.close(self._woken)

    def _arrange(self, descriptor: int) -> None:
        events = self._watched[descriptor].events
        if not events:
            del self._watched[descriptor]
            with contextlib.suppress(KeyError):
                self._selector.unregister(descriptor)
        elif descriptor in self._selector.get_map():
            self._selector.modify(descriptor, events)
        else:
            self._selector.register(descriptor, events)

    def _hear_signals(self) -> None:
        for number in set(os.read(self._wake, 4096)):
            if action := self._signals.get(number):
                self._try(action)

    def _patience(self) -> float | None:
        if not self._regular:
            return None
        return max(min(regular.due for regular in self._regular) - self._clock(), 0)

    def _do_what_is_due(self) -> None:
        now = self._clock()
        for regular in self._regular:
            if now >= regular.due:
                regular.due = now + regular.period
                self._try(regular.action)

    def _try(self, action: Action) -> None:
        try:
            action()
        except Exception as error:
            self._complain("an action of the shim failed", error)
