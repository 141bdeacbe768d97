"""`vcctl top` on a terminal: full screen, redrawn on changes, controlled by keys."""

import asyncio
import signal
from contextlib import ExitStack, suppress
from dataclasses import replace

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from volcano.base.captured_log import SHOWN_FOR, CapturedLog, captured_log
from volcano.cli.errors import explain
from volcano.cli.session import Session
from volcano.cli.top.columns import Pieces
from volcano.cli.top.feed import Feed, followed
from volcano.cli.top.keyboard import listening
from volcano.cli.top.screen import identities, render
from volcano.cli.top.view import JOBS, Place, Request, View, press
from volcano.services.jobs import ACTIONS
from volcano.views.board import Board, board

DRAWN_EVERY = 1.0  # seconds, for ages and the clock
DRAWN_AT_MOST = 0.2  # seconds between two computations of the rows, however much changes
IDLE_PARTS = 4  # idle time after a computation, as a multiple of its duration
CHROME = 12  # lines that are not rows


class Top:
    """Main loop of the full screen."""

    def __init__(self, session: Session, feed: Feed, captured: CapturedLog, console: Console) -> None:
        self._session = session
        self._feed = feed
        self._captured = captured
        self._console = console
        self._view = View() if feed.has_queues else View((Place(level=JOBS),))
        self._result = ("", 0.0)  # of the last action, and when
        self._actions: set[asyncio.Task[None]] = set()
        self._board: Board = board(feed.picture())
        self._looked = 0.0
        self._rest = DRAWN_AT_MOST
        self._stale = False
        self.wake = asyncio.Event()

    def changed(self) -> None:
        """Marks the rows as outdated."""
        self._stale = True
        self.wake.set()

    def press(self, key: str) -> None:
        """Handles a key: redraws at once, without computing the rows again."""
        shown = identities(self._board, self._view.place)
        self._view = press(self._view, key, shown, max(self._console.size.height - CHROME, 1))
        if self._view.requested is not None:
            task = asyncio.create_task(self._execute(self._view.requested))
            self._actions.add(task)
            task.add_done_callback(self._actions.discard)
            self._view = replace(self._view, requested=None)
        self.wake.set()

    async def _execute(self, request: Request) -> None:
        """Executes an action on a job and shows its result."""
        self._show(f"{request.action} job {request.job} ...")
        try:
            await ACTIONS[request.action](self._session.client, self._session.clock, request.job)
        except Exception as error:  # the screen shows it and stays
            self._show(f"cannot {request.action} job {request.job}: {explain(error)}")
        else:
            self._show(f"{request.action} job {request.job}: done")

    def _show(self, text: str) -> None:
        self._result = (text, self._session.clock.now().wall)
        self.wake.set()

    async def run(self, live: Live) -> None:
        """Draws until the user quits."""
        while not self._view.over:
            self._look()
            live.update(self._screen(), refresh=True)
            self.wake.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.wake.wait(), self._rest if self._stale else DRAWN_EVERY)

    def _look(self) -> None:
        now = self._session.clock.now().monotonic
        if now - self._looked >= (self._rest if self._stale else DRAWN_EVERY):
            self._board, self._stale = board(self._feed.picture()), False
            self._looked = self._session.clock.now().monotonic
            self._rest = max(DRAWN_AT_MOST, IDLE_PARTS * (self._looked - now))

    def _screen(self) -> Group:
        width, height = self._console.size
        now = self._session.clock.now().wall
        result = self._result[0] if now - self._result[1] < SHOWN_FOR else ""
        captured = result or self._captured.recent(now) or "; ".join(self._feed.limited)
        source = self._session.connection.settings.server
        lines = render(self._board, self._view, source, width, height, captured)
        return Group(*(styled(line) for line in lines))


def styled(line: Pieces) -> Text:
    """Line as rich text."""
    return Text.assemble(*line, no_wrap=True, overflow="crop", end="\n")


async def run(session: Session, namespace: str, descriptor: int) -> int:
    """Shows the cluster until the user quits."""
    console = Console(file=session.stdout, no_color=not session.colour, highlight=False)
    waker: list[Top] = []

    def changed() -> None:
        for top in waker:
            top.changed()

    with captured_log() as captured:
        async with followed(session, namespace, changed) as feed:
            top = Top(session, feed, captured, console)
            waker.append(top)
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGWINCH, top.wake.set)
            try:
                with ExitStack() as stack:
                    stack.enter_context(listening(descriptor, top.press))
                    live = Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop")
                    await top.run(stack.enter_context(live))
            finally:
                loop.remove_signal_handler(signal.SIGWINCH)
    return 0
