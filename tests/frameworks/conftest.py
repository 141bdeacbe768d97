"""Time of the tests that run frameworks.

With FRAMEWORKS_BUDGET, in seconds, only the first test of each file is run, an installation is given up after half
of that time, and tests for which no time is left are skipped: a machine with an empty cache must not wait for
downloads.
"""

import os
import time

import pytest

from tests.local.program import NETNS, PLAIN, USERNS, Setting, skip_unless_possible

BUDGET = float(os.environ.get("FRAMEWORKS_BUDGET") or "inf")
BEGUN = time.monotonic()
LONGEST = 120.0  # seconds that an example may take once its framework is installed


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if float("inf") == BUDGET:
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


@pytest.fixture(autouse=True)
def time_left(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds the installation, and skips the test when the time is over."""
    if float("inf") == BUDGET or request.node.get_closest_marker("frameworks") is None:
        return
    left = BUDGET - (time.monotonic() - BEGUN) - LONGEST
    if left <= 0:
        pytest.skip(f"no time left of the {BUDGET:.0f} s for frameworks")
    monkeypatch.setenv("VOLCANO_FRAMEWORKS_TIMEOUT", f"{min(left, BUDGET / 2):.0f}")


@pytest.fixture(params=[NETNS, USERNS, PLAIN], ids=str)
def runtime(request: pytest.FixtureRequest) -> Setting:
    """Each runtime of local nodes that this machine allows."""
    setting: Setting = request.param
    return skip_unless_possible(setting)
