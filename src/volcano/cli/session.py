"""Session of a command: client, namespace, clock and output.

The client is imported on first use: `--help` and completion do not need it.
"""

import argparse
import asyncio
import io
import os
import shutil
import sys
from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

from volcano.base.clock import Clock, SystemClock
from volcano.cli.errors import NoServer
from volcano.cli.printing.colours import paint

if TYPE_CHECKING:
    from volcano.kube.client.http import HttpClient
    from volcano.kube.client.kubeconfig import ClientConfig, Overrides

USER_AGENT = "vcctl"
# A user is waiting: connection errors are reported, not retried.
ATTEMPTS = 3
PAGE = 500
WIDTH_OF_A_FILE = 10_000


class Session:
    """One run of one command."""

    def __init__(
        self,
        *,
        kubeconfig: str = "",
        overrides: "Overrides | None" = None,
        environment: Mapping[str, str] = os.environ,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.environment = environment
        self.stdout = stdout or sys.stdout
        self.stderr = stderr or sys.stderr
        self.clock = clock or SystemClock()
        self._kubeconfig = kubeconfig
        self._overrides = overrides

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
        return cls(kubeconfig=arguments.kubeconfig, overrides=overrides)

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
            if "client" in self.__dict__:
                await self.client.close()

    # cluster

    @cached_property
    def settings(self) -> "ClientConfig":
        """Connection settings: as kubectl finds them, else a running `volcano up`."""
        from volcano.kube.client.kubeconfig import ConfigError, Overrides, load_client_config

        overrides = self._overrides or Overrides()
        kubeconfig = self._kubeconfig
        if not kubeconfig and not overrides.server and not self._configured():
            kubeconfig = self._running()
        try:
            return load_client_config(self.environment, kubeconfig=kubeconfig, overrides=overrides)
        except ConfigError as error:
            raise NoServer(str(error)) from None

    def _configured(self) -> bool:
        """Whether kubectl would find a cluster or one was named: a mistyped name must not select another
        cluster."""
        from volcano.kube.client.kubeconfig import kubeconfig_files

        configured = any(self.environment.get(name) for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"))
        return configured or any(path.exists() for path in kubeconfig_files(self.environment))

    def _running(self) -> str:
        """Kubeconfig of a cluster that runs on this machine."""
        from volcano.embedded.contexts import find_any, unexpected_ends
        from volcano.kube.client.kubeconfig import kubeconfig_files

        running = find_any()
        if running is None and (ends := unexpected_ends()):
            raise NoServer(str(ends[0]))
        if running is None:
            looked = ", ".join(map(str, kubeconfig_files(self.environment)))
            raise NoServer(
                f"no cluster is configured: looked for {looked}, for the service account of a pod and for a running "
                "`volcano up`; name a file with --kubeconfig or KUBECONFIG, or start a cluster with `volcano up`"
            )
        return running.kubeconfig

    @property
    def kubeconfigs(self) -> list[str]:
        """Kubeconfig files that were named, by flag or environment."""
        named = [self._kubeconfig, *self.environment.get("KUBECONFIG", "").split(os.pathsep)]
        return [path for path in named if path]

    @cached_property
    def client(self) -> "HttpClient":
        """Client of the cluster; connects on the first request."""
        from volcano.kube.client.connect import connect
        from volcano.kube.client.http import RetryPolicy
        from volcano.kube.client.kubeconfig import ConfigError

        try:
            return connect(
                self.settings,
                self.clock,
                environment=self.environment,
                user_agent=USER_AGENT,
                retries=RetryPolicy(attempts=ATTEMPTS),
                page=PAGE,
            )
        except ConfigError as error:
            raise NoServer(str(error)) from None

    @property
    def namespace(self) -> str:
        """Namespace of the context."""
        return self.settings.namespace

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
