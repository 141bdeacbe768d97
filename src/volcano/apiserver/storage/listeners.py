"""Listeners of the store: caches that follow its changes. A listener that fails never fails the write."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from volcano.apiserver.storage.history import Change
from volcano.base.log import Log

log = Log("store")

# A resynchronization that failed is tried again after 1, 2, 4, ... further changes, at most this many.
LONGEST_PAUSE = 1024

# Called with every change in memory, and with its inverse when the change is rolled back.
OnChange = Callable[[str, Change], None]


@dataclass(slots=True)
class _Listener:
    name: str
    on_change: OnChange
    resync: Callable[[], None]
    problem: str = ""  # why it does not follow the store at present
    pause: int = 0  # changes between the last two attempts to resynchronize
    remaining: int = 0  # changes until the next attempt


class Listeners:
    """Calls every listener with every change, each isolated from the others and from the writer.

    A listener that raises has an unknown state: it is brought up to date from the store at once. If that fails too, it
    receives no changes until a later attempt succeeds, and `problem` names it.
    """

    def __init__(self) -> None:
        self._listeners: list[_Listener] = []
        self.failures: Counter[str] = Counter()  # by listener

    def add(self, name: str, on_change: OnChange, resync: Callable[[], None]) -> None:
        """Adds a listener; `resync` brings it up to date with the present state of the store."""
        self._listeners.append(_Listener(name, on_change, resync))

    def notify(self, collection: str, change: Change) -> None:
        """Passes a change on; it is part of the store already."""
        for listener in self._listeners:
            if listener.problem:
                self._retry(listener)
                continue
            try:
                listener.on_change(collection, change)
            except Exception as error:  # the object is stored: a listener's bug is not the writer's error
                self.record_failure(listener.name, error)
                self._resync(listener)

    def record_failure(self, name: str, error: Exception) -> None:
        """Counts and logs a failure of a listener or a cache."""
        self.failures[name] += 1
        log.error("store listener failed, write not affected", listener=name, error=error)

    def problem(self) -> str:
        """The listeners that do not follow the store at present and why; empty when all do."""
        return "; ".join(
            f"{listener.name} is out of date: {listener.problem}"
            for listener in self._listeners
            if listener.problem
        )

    def _retry(self, listener: _Listener) -> None:
        listener.remaining -= 1
        if listener.remaining <= 0:
            self._resync(listener)

    def _resync(self, listener: _Listener) -> None:
        try:
            listener.resync()
        except Exception as error:  # as above; tried again after further changes
            self.record_failure(listener.name, error)
            listener.problem = f"{type(error).__name__}: {error}"
            listener.pause = listener.remaining = min(listener.pause * 2 or 1, LONGEST_PAUSE)
        else:
            if listener.problem:
                log.info("store listener up to date again", listener=listener.name)
            listener.problem, listener.pause = "", 0
