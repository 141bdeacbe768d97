"""Every page on a narrow screen and in both themes: nothing is wider than the screen, every control has a label."""

from typing import TYPE_CHECKING, Any

import pytest

from tests.dashboard.cluster import UserCluster, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
CLUSTER_FLAGS = ("--nodes", "8", "--node", "cpu=8,memory=32Gi,nvidia.com/gpu=8", "--topology", "rack=4")
JOB = "a-job-with-a-name-that-is-as-long-as-names-are-allowed-to-be"[:50]
TABS = ("pods", "timeline", "diagnosis", "logs", "events", "yaml", "shell")
PATHS = (
    "/", "/queues", "/queues/root", "/jobs", "/nodes", "/nodes/node-0", "/scheduler", "/scheduler?tab=evictions",
    "/scheduler?tab=configuration", "/submit", "/usage", "/simulator",
    *(f"/jobs/default/{JOB}?tab={tab}" for tab in TABS),
)  # fmt: skip
UNLABELLED = """() => [...document.querySelectorAll(
    'button, a[href], input, select, textarea, [role=button], [role=tab], [role=combobox]')]
  .filter((each) => each.offsetParent && !(each.getAttribute('aria-label') || each.title || each.innerText?.trim()
    || each.getAttribute('aria-labelledby') || [...(each.labels ?? [])].some((label) => label.innerText.trim())))
  .map((each) => each.outerHTML.slice(0, 200))"""


@pytest.fixture(scope="module")
def state(browser: "Browser", cluster: UserCluster) -> dict[str, Any]:
    """What a new context needs to be logged in; a job runs and one waits."""
    cluster.submit(JOB, replicas=2)
    cluster.submit("waits", replicas=100)
    eventually(lambda: cluster.phase(JOB) == "Running", "the job runs")
    link = cluster.link()
    context = browser.new_context(base_url=link.partition("/login")[0])
    page = context.new_page()
    page.goto(link)
    page.wait_for_url(lambda url: "/login" not in url)
    state = context.storage_state()
    context.close()
    return {"base_url": link.partition("/login")[0], "storage_state": state}


@pytest.mark.parametrize(("theme", "width"), [("light", 400), ("dark", 1400)])
def test_pages_fit_the_screen_and_controls_have_labels(
    browser: "Browser", state: dict[str, Any], theme: Any, width: int
) -> None:
    context = browser.new_context(**state, color_scheme=theme, viewport={"width": width, "height": 850})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    found: dict[str, object] = {}
    for path in PATHS:
        page.goto(path)
        page.locator("h1").first.wait_for()
        page.wait_for_function("document.querySelector('.volcano-page')?.offsetHeight > 100")
        wide = page.evaluate("document.documentElement.scrollWidth")
        unlabelled = page.evaluate(UNLABELLED)
        if wide > width or unlabelled:
            found[path] = (wide, unlabelled)
        assert page.evaluate("document.body.classList.contains('body--dark')") == (theme == "dark")
    context.close()
    assert found == {}
    assert errors == []
