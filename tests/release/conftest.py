"""The installed wheel, built once for all tests of releases."""

import pytest

from tests.release.installed import Installed, install


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(tmp_path_factory.mktemp("release"))
