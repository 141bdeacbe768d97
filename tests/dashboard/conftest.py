"""A browser that is logged in to the dashboard of a running cluster."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.dashboard.cluster import UserCluster, user_cluster

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Chromium; the test is skipped where it or Playwright is missing.

    Its library occupies the event loop of the thread, so that a module with browser tests has no async ones.
    """
    from pathlib import Path

    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    program = next((each for each in CHROMIUM if Path(each).exists()), None)
    if program is None:
        pytest.skip("Chromium is not installed (Debian package chromium)")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[UserCluster]:
    """A cluster of simulated nodes; a module changes its flags with FLAGS."""
    pytest.importorskip("nicegui", reason="the dashboard is not installed")
    flags = getattr(request.module, "CLUSTER_FLAGS", ("--nodes", "4", "--node", "cpu=8,memory=32Gi"))
    with user_cluster(tmp_path_factory.mktemp("home"), *flags) as user:
        yield user


@pytest.fixture
def page(browser: "Browser", cluster: UserCluster) -> "Iterator[Page]":
    """A page that is logged in; an error in the browser's console fails the test. Addresses are relative."""
    link = cluster.link()
    context = browser.new_context(base_url=link.partition("/login")[0])
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(link)
    page.wait_for_url(lambda url: "/login" not in url)
    yield page
    context.close()
    assert errors == []
