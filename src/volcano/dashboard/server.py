"""The main flow of the dashboard: connect, watch, serve pages until it is stopped."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from nicegui import ui

from volcano.base.clock import Clock
from volcano.dashboard.analyses import Analyses
from volcano.dashboard.context import Context
from volcano.dashboard.feed import Feed
from volcano.dashboard.guard import Guard
from volcano.dashboard.login import STATIC, Login
from volcano.dashboard.options import DashboardOptions
from volcano.dashboard.pages.frame import frame
from volcano.dashboard.pages.page import Page
from volcano.dashboard.pages.registry import PAGES
from volcano.dashboard.sampler import Sampler
from volcano.dashboard.sessions import BrowserSessions
from volcano.dashboard.viewer import connection_of
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import ClientConfig

USER_AGENT = "volcano-dashboard"
BUILT_WITHIN = 30.0


async def serve(
    options: DashboardOptions,
    config: ClientConfig,
    listener: socket.socket,
    clock: Clock,
    ready: Callable[[], None],
) -> None:
    """Serves the dashboard on a bound socket until the process is signalled; calls `ready` once it listens."""
    port = listener.getsockname()[1]
    client = connect(config, clock, user_agent=USER_AGENT)
    feed, sessions = Feed(client, clock), BrowserSessions(clock)
    login = Login(options, config, port, sessions, clock)
    analyses = Analyses()
    application = _application(options, feed, login, analyses)
    guarded = Guard(application, options, port, sessions, login.viewer_of_headers)
    own = connection_of(config, clock)
    tasks = [asyncio.create_task(feed.run()), asyncio.create_task(Sampler(feed, own, clock).run())]
    try:
        await _run(guarded, options, listener, ready)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        analyses.close()
        await sessions.end_all()
        await own.close()
        await client.close()


def _application(options: DashboardOptions, feed: Feed, login: Login, analyses: Analyses) -> FastAPI:
    application = FastAPI(title="Volcano", docs_url=None, redoc_url=None, openapi_url=None)
    login.add_routes(application)
    for page in PAGES:
        for path in page.paths:
            ui.page(path, title=f"{page.title} - Volcano", response_timeout=BUILT_WITHIN)(
                _handler(page, options, feed, analyses)
            )
    ui.run_with(
        application,
        title="Volcano",
        favicon=STATIC / "icon.svg",
        dark=None,
        language="en-US",
        binding_refresh_interval=None,
        reconnect_timeout=10.0,
        show_welcome_message=False,
    )
    return application


def _handler(
    page: Page, options: DashboardOptions, feed: Feed, analyses: Analyses
) -> Callable[[Request], Awaitable[None]]:
    async def show(request: Request) -> None:
        viewer = request.state.viewer
        await feed.synced()
        context = Context(
            viewer,
            feed,
            options,
            await feed.objects(viewer),
            analyses,
            path=request.url.path,
            parameters=request.path_params,
            query=request.query_params,
        )
        with frame(page, PAGES, context):
            await page.build(context)
        context.follow()

    return show


async def _run(
    application: Any, options: DashboardOptions, listener: socket.socket, ready: Callable[[], None]
) -> None:
    config = uvicorn.Config(
        application,
        log_level="warning",
        access_log=False,  # addresses may hold what viewers filter by
        proxy_headers=False,
        server_header=False,
        ssl_certfile=options.certificate,
        ssl_keyfile=options.private_key,
        ws="wsproto",
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    ready()
    await server.serve(sockets=[listener])
