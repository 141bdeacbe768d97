"""Time and programs of the tests that run frameworks.

With FRAMEWORKS_BUDGET, in seconds, only the first test of each file is run, frameworks are installed beside the
examples, and tests for which no time is left are skipped: a machine with an empty cache must not wait for downloads.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.embedded.program import NETNS, PLAIN, USERNS, Setting, skip_unless_possible
from tests.frameworks.budget import Budget, framework_of, plan
from tests.k8s.control_plane import build
from volcano.frameworks.install import installed

SECONDS = os.environ.get("FRAMEWORKS_BUDGET")
BUDGET = Budget(float(SECONDS), installed) if SECONDS else None


def pytest_configure(config: pytest.Config) -> None:
    """Recipes of operators need kubectl; the suite on a real API server has built one."""
    if shutil.which("kubectl") is None and build.program("kubectl").exists():
        os.environ["PATH"] += os.pathsep + str(build.cache())


def pytest_report_header(config: pytest.Config) -> list[str]:
    return plan(_frameworks(map(Path, config.args)), BUDGET.seconds) if BUDGET else []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if BUDGET is None:
        return
    kept: dict[str, pytest.Item] = {}
    dropped = []
    for item in items:
        if item.get_closest_marker("frameworks") is None:
            continue
        if kept.setdefault(str(item.path), item) is not item:
            dropped.append(item)
    config.hook.pytest_deselected(items=dropped)
    items[:] = [item for item in items if item not in dropped]


def pytest_collection_finish(session: pytest.Session) -> None:
    if BUDGET is not None and not session.config.option.collectonly:
        BUDGET.begin(_frameworks(item.path for item in session.items))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Runs the tests in the order in which their frameworks are installed."""
    if BUDGET is None or session.config.option.collectonly or not all(map(_framework, session.items)):
        return None
    left = list(session.items)
    while left:
        name = BUDGET.first_ready([_framework(item) for item in left])
        item = next(item for item in left if _framework(item) == name)
        left.remove(item)
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
    return True


def _framework(item: pytest.Item) -> str:
    return framework_of(item.path) or ""


@pytest.fixture(autouse=True)
def time_left(request: pytest.FixtureRequest) -> None:
    """Waits for the framework, and skips the test when it is not available or the time is over."""
    if BUDGET is None or request.node.get_closest_marker("frameworks") is None:
        return
    framework = framework_of(request.node.path)
    if framework is not None and (reason := BUDGET.wait(framework)):
        pytest.skip(reason)


@pytest.fixture(params=[NETNS, USERNS, PLAIN], ids=str)
def runtime(request: pytest.FixtureRequest) -> Setting:
    """Each runtime of local nodes that this machine allows."""
    setting: Setting = request.param
    return skip_unless_possible(setting)


def _frameworks(paths: Iterable[Path]) -> list[str]:
    names = (framework_of(path) for path in paths)
    return list(dict.fromkeys(name for name in names if name is not None))
