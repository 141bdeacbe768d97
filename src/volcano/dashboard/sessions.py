"""Browser sessions: a random cookie stands for a viewer. They are kept in memory and end when they are not used."""

import secrets
from dataclasses import dataclass

from volcano.base.clock import Clock
from volcano.dashboard.viewer import Viewer

IDLE_SECONDS = 12 * 3600.0
MOST_SESSIONS = 10_000


@dataclass(slots=True)
class _Entry:
    viewer: Viewer
    used: float


class BrowserSessions:
    """Viewers by the value of their cookie."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[str, _Entry] = {}

    async def begin(self, viewer: Viewer) -> str:
        """Starts a session; returns the value of its cookie."""
        await self._end_idle()
        identity = secrets.token_urlsafe(32)
        self._entries[identity] = _Entry(viewer, self._clock.now().monotonic)
        return identity

    def find(self, identity: str) -> Viewer | None:
        entry = self._entries.get(identity)
        now = self._clock.now().monotonic
        if entry is None or now - entry.used > IDLE_SECONDS:
            return None
        entry.used = now
        return entry.viewer

    async def end(self, identity: str) -> None:
        entry = self._entries.pop(identity, None)
        if entry is not None:
            await entry.viewer.close()

    async def end_all(self) -> None:
        for identity in list(self._entries):
            await self.end(identity)

    async def _end_idle(self) -> None:
        now = self._clock.now().monotonic
        oldest_first = sorted(self._entries, key=lambda each: self._entries[each].used)
        surplus = len(oldest_first) - MOST_SESSIONS + 1
        for position, identity in enumerate(oldest_first):
            if position < surplus or now - self._entries[identity].used > IDLE_SECONDS:
                await self.end(identity)
