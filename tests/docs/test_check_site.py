"""The check of the built site finds what a page loads from other hosts."""

from pathlib import Path

import pytest

from tools.docs.check_site import external, main


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ('<script src="https://cdn.example/a.js"></script>', ["https://cdn.example/a.js"]),
        ('<link rel="stylesheet" href="//fonts.example/css">', ["//fonts.example/css"]),
        ('<link href="https://fonts.example" rel="preconnect">', ["https://fonts.example"]),
        ('<img src="images/a.svg"><script src="../a.js"></script>', []),
        ('<a href="https://kubernetes.io">Kubernetes</a>', []),
    ],
)
def test_resources_of_other_hosts_are_found(page: str, found: list[str]) -> None:
    assert external(page) == found


def test_an_empty_site_is_an_error(tmp_path: Path) -> None:
    assert main(tmp_path) == 1
