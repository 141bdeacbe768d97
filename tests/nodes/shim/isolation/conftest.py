"""Tests run as root in network namespaces and as user 65534 in a user namespace, where this machine allows it."""

import functools
import os

import pytest

from tests.nodes.shim.isolation.stage import NOBODY, Setting, become, in_child
from volcano.nodes.shim.isolation.probe import unavailable_reason
from volcano.nodes.shim.specs import Mode

AS_ROOT = Setting(Mode.NETNS)
AS_NOBODY = Setting(Mode.USERNS, NOBODY)
ROOT_IN_USERNS = Setting(Mode.USERNS)


@functools.cache
def obstacle(setting: Setting) -> str:
    if os.geteuid() != 0:
        return "only root can change users"

    def tried() -> str:
        become(setting.user)
        return unavailable_reason(setting.mode)

    return in_child(tried)


@pytest.fixture(params=[AS_ROOT, AS_NOBODY], ids=str)
def setting(request: pytest.FixtureRequest) -> Setting:
    wanted: Setting = request.param
    return skip_unless_possible(wanted)


@pytest.fixture(params=[AS_ROOT, AS_NOBODY, ROOT_IN_USERNS], ids=str)
def any_setting(request: pytest.FixtureRequest) -> Setting:
    wanted: Setting = request.param
    return skip_unless_possible(wanted)


@pytest.fixture
def as_root() -> Setting:
    return skip_unless_possible(AS_ROOT)


@pytest.fixture
def as_nobody() -> Setting:
    return skip_unless_possible(AS_NOBODY)


def skip_unless_possible(setting: Setting) -> Setting:
    if reason := obstacle(setting):
        pytest.skip(f"{setting}: {reason}")
    return setting
