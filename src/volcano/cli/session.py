"""Session of a command: a connection and the terminal."""

import argparse
import asyncio
import io
import shutil
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

from volcano.base.clock import Clock
from volcano.cli.printing.colours import paint
from volcano.cli.printing.tables import Column, Layout, selected
from volcano.services.connection import Connection

if TYPE_CHECKING:
    from volcano.kube.client.http import HttpClient

WIDTH_OF_A_FILE = 10_000


class Session:
    """One run of one command."""

    def __init__(
        self,
        connection: Connection | None = None,
        *,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self.connection = connection or Connection()
        self.stdout = stdout or sys.stdout
        self.stderr = stderr or sys.stderr

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> "Session":
        """Session described by the common flags."""
        from volcano.kube.client.credentials import NO_IMPERSONATION, Impersonation
        from volcano.kube.client.kubeconfig import Overrides

        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # replaces characters that the terminal cannot encode
        groups = tuple(arguments.as_group or ())
        acting = (
            Impersonation(arguments.impersonate, "", groups, {})
            if arguments.impersonate
            else NO_IMPERSONATION
        )
        overrides = Overrides(
            context=arguments.context,
            cluster=arguments.cluster,
            user=arguments.user,
            server=arguments.master,
            token=arguments.token,
            insecure=arguments.insecure_skip_tls_verify,
            impersonate=acting,
        )
        return cls(Connection(kubeconfig=arguments.kubeconfig, overrides=overrides))

    def run(
        self,
        command: Callable[[argparse.Namespace, "Session"], Coroutine[Any, Any, int]],
        arguments: argparse.Namespace,
    ) -> int:
        """Runs a command in its own event loop and closes the connection."""
        return asyncio.run(self._run(command(arguments, self)))

    async def _run(self, command: Coroutine[Any, Any, int]) -> int:
        try:
            code = await command
            self.stdout.flush()
            return code
        finally:
            await self.connection.close()

    # cluster

    @property
    def client(self) -> "HttpClient":
        """Client of the cluster; connects on the first request."""
        return self.connection.client

    @property
    def clock(self) -> Clock:
        return self.connection.clock

    @property
    def environment(self) -> Mapping[str, str]:
        return self.connection.environment

    @property
    def namespace(self) -> str:
        """Namespace of the context."""
        return self.connection.namespace

    # terminal

    @cached_property
    def terminal(self) -> bool:
        """Whether stdout is a terminal."""
        return self.stdout.isatty()

    @cached_property
    def colour(self) -> bool:
        """Whether to use colours: only on a terminal, without NO_COLOR and not with TERM=dumb."""
        return (
            self.terminal and not self.environment.get("NO_COLOR") and self.environment.get("TERM") != "dumb"
        )

    @property
    def width(self) -> int:
        """Width of the terminal; practically unlimited without one."""
        return shutil.get_terminal_size().columns if self.terminal else WIDTH_OF_A_FILE

    def paint(self, text: str, *styles: str) -> str:
        """Text in a style such as "green" or "bold", if colours are on."""
        return paint(text, *styles) if self.colour else text

    def write(self, text: str = "", *, end: str = "\n") -> None:
        """Prints output."""
        self.stdout.write(text + end)

    def table(
        self,
        columns: Sequence[Column],
        rows: Sequence[Any],
        *,
        wide: bool = False,
        headers: bool = True,
        wrapped: bool = False,
        padded: bool = False,
        indent: str = "",
    ) -> None:
        """Prints a table; `wrapped` continues long sentences below themselves, `padded` keeps trailing spaces."""
        chosen = selected(columns, wide=wide, terminal=self.terminal)
        layout = Layout(
            chosen, rows, terminal=self.terminal, colour=self.colour, room=self.width - len(indent)
        )
        lines = (line for row in rows for line in (layout.wrapped(row) if wrapped else [layout.row(row)]))
        for line in (*([layout.header()] if headers else []), *lines):
            self.write(indent + line if padded else (indent + line).rstrip())

    def confirm(self, question: str) -> bool:
        """Asks on a terminal; False without one, so that scripts need a flag."""
        if not (self.terminal and sys.stdin.isatty()):
            return False
        self.stderr.write(f"{question} [y/N] ")
        self.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def warn(self, text: str) -> None:
        """Prints a message on stderr."""
        self.stdout.flush()
        self.stderr.write(text + "\n")
