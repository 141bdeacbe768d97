"""Connection to a cluster: its settings, client, clock and namespace.

The client is imported on first use: `--help` and completion do not need it.
"""

import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from volcano.base.clock import Clock, SystemClock
from volcano.services.errors import Unreachable

if TYPE_CHECKING:
    from volcano.kube.client.http import HttpClient
    from volcano.kube.client.kubeconfig import ClientConfig, Overrides

USER_AGENT = "vcctl"
# A user is waiting: connection errors are reported, not retried.
ATTEMPTS = 3
PAGE = 500


class Connection:
    """A cluster as kubectl finds it, else a running `volcano up`; connects on the first request."""

    def __init__(
        self,
        *,
        kubeconfig: str = "",
        overrides: "Overrides | None" = None,
        settings: "ClientConfig | None" = None,
        client: "HttpClient | None" = None,
        environment: Mapping[str, str] = os.environ,
        clock: Clock | None = None,
    ) -> None:
        self.environment = environment
        self.clock = clock or SystemClock()
        self._kubeconfig = kubeconfig
        self._overrides = overrides
        if settings is not None:
            self.settings = settings
        if client is not None:
            self.client = client

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
            raise Unreachable(str(error)) from None

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
            raise Unreachable(str(error)) from None

    @property
    def namespace(self) -> str:
        """Namespace of the context."""
        return self.settings.namespace

    @property
    def kubeconfigs(self) -> list[str]:
        """Kubeconfig files that were named, by flag or environment."""
        named = [self._kubeconfig, *self.environment.get("KUBECONFIG", "").split(os.pathsep)]
        return [path for path in named if path]

    async def close(self) -> None:
        """Closes the connections, if any were opened."""
        if "client" in self.__dict__:
            await self.client.close()

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
            raise Unreachable(str(ends[0]))
        if running is None:
            looked = ", ".join(map(str, kubeconfig_files(self.environment)))
            raise Unreachable(
                f"no cluster is configured: looked for {looked}, for the service account of a pod and for a running "
                "`volcano up`; name a file with --kubeconfig or KUBECONFIG, or start a cluster with `volcano up`"
            )
        return running.kubeconfig
