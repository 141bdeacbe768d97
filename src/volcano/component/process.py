"""Common parts of programs: flags, client, leader election, health and metrics, shutdown."""

import argparse
import asyncio
import os
import random
import signal
import socket
import ssl
import sys
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from volcano import __version__
from volcano.base import log, metrics
from volcano.base.clock import Clock
from volcano.base.gc_policy import GcPolicy
from volcano.base.http.messages import Answer, Handler, Request, Response
from volcano.base.http.server import Server
from volcano.base.http.tls_context import Credential, server_context
from volcano.base.os_errors import explain_bind_error, explain_os_error
from volcano.kube.api.duration import parse as parse_duration
from volcano.kube.api.manifest import Key
from volcano.kube.client.connect import connect
from volcano.kube.client.http import HttpClient
from volcano.kube.client.kubeconfig import ConfigError, Overrides, load_client_config
from volcano.kube.client.protocol import Client
from volcano.kube.controllers.election import (
    Candidate,
    LeaderElectionConfig,
    LeadershipLost,
    run_leader_election,
)

TEXT = {"Content-Type": "text/plain; charset=utf-8"}
CONNECTIONS = 32  # concurrent requests; each opens a connection, which costs the server as much as a write
Value = TypeVar("Value")
# A check: an error message, or empty.
Check = Callable[[], str]


def boolean(text: str) -> bool:
    """Boolean flag as Go parses it: `--x`, `--x=true`, `--x=0`."""
    if text.lower() in ("true", "t", "1"):
        return True
    if text.lower() in ("false", "f", "0"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def duration(text: str) -> float:
    """Seconds from a duration such as `15s`."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; such as 15s or 1m30s") from None


def typed(parse: Callable[[str], Value]) -> Callable[[str], Value]:
    """The type of a flag whose errors are those of a parser of text, which raises ValueError."""

    def convert(text: str) -> Value:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def add_switch(parser: argparse.ArgumentParser, name: str, *, default: bool, help: str) -> None:
    parser.add_argument(name, type=boolean, nargs="?", const=True, default=default, metavar="BOOL", help=help)


def add_client_flags(parser: argparse.ArgumentParser, *, qps: float, burst: int) -> None:
    parser.add_argument(
        "--kubeconfig", default="", metavar="FILE", help="kubeconfig file (default: as kubectl finds it)"
    )
    parser.add_argument(
        "--master", default="", metavar="URL", help="address of the API server (default: of the kubeconfig)"
    )
    parser.add_argument(
        "--kube-api-qps",
        type=float,
        default=qps,
        help=f"requests per second to the API server (default {qps:g})",
    )
    parser.add_argument(
        "--kube-api-burst", type=int, default=burst, help=f"requests in a burst (default {burst})"
    )
    parser.add_argument(
        "-v",
        "--v",
        "--verbose",
        type=int,
        nargs="?",
        const=4,
        default=2,
        help="log level, 0 (errors only) to 5 (default 2)",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")


def add_ignored_flags(parser: argparse.ArgumentParser) -> None:
    """Adds flags of Volcano's logging library that its Deployments pass; they have no effect here."""
    for name in ("--logtostderr", "--alsologtostderr", "--add-dir-header", "--skip-headers"):
        add_switch(parser, name, default=True, help=argparse.SUPPRESS)
    for name in ("--log-flush-frequency", "--log-dir", "--log-file", "--stderrthreshold", "--vmodule"):
        parser.add_argument(name, default="", help=argparse.SUPPRESS)
    parser.add_argument(
        "redirection", type=_redirection, nargs="*", metavar="ARGUMENT", help=argparse.SUPPRESS
    )


def _redirection(word: str) -> str:
    if word != "2>&1":
        raise argparse.ArgumentTypeError(f"unexpected argument {word!r}; flags begin with --")
    return word


def add_election_flags(parser: argparse.ArgumentParser, *, name: str) -> None:
    add_switch(
        parser,
        "--leader-elect",
        default=True,
        help="run only while holding the leader election lease (default true)",
    )
    for flag, seconds, text in (
        ("lease-duration", 15.0, "time after which another replica may take over"),
        ("renew-deadline", 10.0, "time within which the leader must renew the lease"),
        ("retry-period", 2.0, "time between attempts to acquire or renew the lease"),
    ):
        parser.add_argument(
            f"--leader-elect-{flag}",
            type=duration,
            default=seconds,
            metavar="DURATION",
            help=f"{text} (default {seconds:g}s)",
        )
    parser.add_argument(
        "--leader-elect-resource-name",
        default=name,
        metavar="NAME",
        help=f"name of the lease (default {name})",
    )
    parser.add_argument(
        "--leader-elect-resource-namespace",
        default="volcano-system",
        metavar="NAMESPACE",
        help="namespace of the lease (default volcano-system)",
    )
    parser.add_argument(
        "--leader-elect-resource-lock", default="leases", choices=("leases",), help="kind of the lock"
    )
    parser.add_argument(
        "--lock-object-namespace",
        default="",
        metavar="NAMESPACE",
        help="older name of --leader-elect-resource-namespace; takes precedence",
    )


def add_serving_flags(parser: argparse.ArgumentParser, *, metrics_address: str) -> None:
    add_switch(parser, "--enable-healthz", default=False, help="serve /healthz and /readyz")
    parser.add_argument(
        "--healthz-address",
        default=":11251",
        metavar="ADDRESS",
        help="address of /healthz and /readyz (default :11251)",
    )
    add_switch(parser, "--enable-metrics", default=False, help="serve /metrics")
    parser.add_argument(
        "--listen-address",
        default=metrics_address,
        metavar="ADDRESS",
        help=f"address of /metrics (default {metrics_address})",
    )
    for name in ("--ca-cert-file", "--tls-cert-file", "--tls-private-key-file"):
        parser.add_argument(
            name, type=Path, default=None, metavar="FILE", help="serve health over TLS; needs all three files"
        )


def client_of(
    arguments: argparse.Namespace, clock: Clock, *, user_agent: str, limited: bool = True
) -> HttpClient:
    """Client from the flags, with rate limits if `limited`. Exits with a message if the flags are invalid."""
    try:
        overrides = Overrides(server=arguments.master)
        settings = load_client_config(os.environ, kubeconfig=arguments.kubeconfig, overrides=overrides)
        qps = arguments.kube_api_qps if limited else 0.0
        burst = arguments.kube_api_burst
        return connect(settings, clock, qps=qps, burst=burst, connections=CONNECTIONS, user_agent=user_agent)
    except ConfigError as error:
        raise SystemExit(f"{user_agent}: {error}") from None


@dataclass(slots=True)
class Health:
    """Checks behind /healthz and /readyz. A warning is shown by /readyz, but the program is ready."""

    live: dict[str, Check] = field(default_factory=dict)
    ready: dict[str, Check] = field(default_factory=dict)
    warnings: dict[str, Check] = field(default_factory=dict)


# Answers requests for one path.
Page = Callable[[Request], Response]


async def serve(
    arguments: argparse.Namespace,
    stack: AsyncExitStack,
    health: Health,
    registry: metrics.CollectorRegistry,
    pages: Mapping[str, Page] | None = None,
) -> None:
    """Serves the health and metrics endpoints that the flags request; `pages` are served beside the metrics."""
    routes: dict[str, dict[str, Page]] = {}
    if arguments.enable_healthz:
        paths = routes.setdefault(arguments.healthz_address, {})
        paths["/healthz"] = paths["/livez"] = lambda request: _checked(health.live)
        paths["/readyz"] = lambda request: _checked(health.ready, health.warnings)
    if arguments.enable_metrics:
        content = {"Content-Type": metrics.CONTENT_TYPE}
        paths = routes.setdefault(arguments.listen_address, {})
        paths["/metrics"] = lambda request: Response(200, content, metrics.render(registry))
        paths.update(pages or {})
    for address, paths in routes.items():
        host, port = split_address(address)
        tls = _tls(arguments) if "/healthz" in paths else None
        server = Server(_handler(paths), tls=tls)
        await listen(server, host, port)
        stack.push_async_callback(server.stop, 1.0)


class AddressError(Exception):
    """An address on which this program cannot listen; the message says why and what to do."""


async def listen(server: Server, host: str, port: int) -> int:
    """Starts a server; returns its port. Raises AddressError."""
    try:
        return await server.start(host, port)
    except OSError as error:
        raise AddressError(explain_bind_error(error, host, port)) from None


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `:8080` or `127.0.0.1:8080`; an empty host means all addresses."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise SystemExit(f"address {address!r} is not of the form host:port")
    return host.strip("[]") or "0.0.0.0", int(port)


def _handler(paths: Mapping[str, Page]) -> Handler:
    async def answer(request: Request) -> Answer:
        found = paths.get(request.path)
        return found(request) if found else Response(404, dict(TEXT), b"not found\n")

    return answer


def _checked(checks: Mapping[str, Check], warnings: Mapping[str, Check] | None = None) -> Response:
    errors = [f"{name}: {text}" for name, check in checks.items() if (text := check())]
    notes = [f"warning: {name}: {text}" for name, check in (warnings or {}).items() if (text := check())]
    if errors:
        return Response(500, dict(TEXT), "\n".join([*errors, *notes, ""]).encode())
    return Response(200, dict(TEXT), "\n".join(["ok", *notes, ""] if notes else ["ok"]).encode())


def _tls(arguments: argparse.Namespace) -> ssl.SSLContext | None:
    files = (arguments.ca_cert_file, arguments.tls_cert_file, arguments.tls_private_key_file)
    if not all(files):
        return None
    authority, certificate, key = (path.read_bytes() for path in files)
    return server_context(Credential(certificate, key), client_authority=authority)


def election_client(
    arguments: argparse.Namespace, clock: Clock, stack: AsyncExitStack, *, user_agent: str
) -> HttpClient:
    """Client for the lease alone: renewal must not wait behind other requests."""
    client = client_of(arguments, clock, user_agent=f"{user_agent}/leader-election", limited=False)
    stack.push_async_callback(client.close)
    return client


async def lead_or_run(
    arguments: argparse.Namespace, client: Client, clock: Clock, work: Callable[[], Awaitable[None]]
) -> None:
    """Runs `work` while leading, or at once without leader election. Raises `LeadershipLost`.

    `client` is for the lease; see `election_client`.
    """
    if not arguments.leader_elect:
        await work()
        return
    namespace = arguments.lock_object_namespace or arguments.leader_elect_resource_namespace
    key = Key(namespace, arguments.leader_elect_resource_name)
    try:
        config = LeaderElectionConfig(
            arguments.leader_elect_lease_duration,
            arguments.leader_elect_renew_deadline,
            arguments.leader_elect_retry_period,
        )
    except ValueError as error:
        raise SystemExit(f"--leader-elect-...: {error}") from None
    candidate = Candidate(key, f"{socket.gethostname()}_{uuid.uuid4()}", config)
    await run_leader_election(client, candidate, clock, work, chance=random.random)


def run_until_signal(main: Coroutine[Any, Any, None], *, name: str, verbosity: int) -> int:
    """Runs a program until it ends or a signal stops it; a second signal ends it at once."""
    levels = {0: 40, 1: 30, 2: 20, 3: 20}
    log.configure(levels.get(verbosity, 10))
    try:
        asyncio.run(_until_signal(main))
    except LeadershipLost as error:
        print(
            f"{name}: {error}; exiting, so that a new process can take part in the election", file=sys.stderr
        )
        return 1
    except (AddressError, OSError) as error:
        return _report(name, error)
    except ExceptionGroup as group:  # of a program that runs several tasks
        expected = group.subgroup((AddressError, OSError))
        if expected is None:
            raise
        return _report(name, _first(expected))
    return 0


def _report(name: str, error: Exception) -> int:
    text = explain_os_error(error) if isinstance(error, OSError) else str(error)
    print(f"{name}: {text}", file=sys.stderr)
    return 1


def _first(error: Exception) -> Exception:
    return _first(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error


async def _until_signal(main: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(main)
    loop = asyncio.get_running_loop()
    stopping = False

    def stop() -> None:
        nonlocal stopping
        if stopping:
            os._exit(1)
        stopping = True
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    gc_policy = GcPolicy()
    gc_policy.apply()
    tidier = asyncio.create_task(gc_policy.run())
    try:
        await task
    except asyncio.CancelledError:
        if not stopping:
            raise
    finally:
        tidier.cancel()
        gc_policy.restore()
