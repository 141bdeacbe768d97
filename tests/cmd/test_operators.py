"""`--operator` names the operator of an installed framework."""

from pathlib import Path

import pytest

from volcano.cli.errors import CommandError
from volcano.cli.volcano.framework.operators import operator_documents
from volcano.frameworks.cache import Cache
from volcano.frameworks.install import recipe_of
from volcano.frameworks.operators import FILE


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.setenv("VOLCANO_FRAMEWORKS", str(tmp_path))
    return Cache()


def test_an_unknown_framework_is_named_with_those_that_are_known(cache: Cache) -> None:
    with pytest.raises(CommandError, match=r"no framework 'argoo'; known are argo, .*kueue"):
        operator_documents(["argoo"])


def test_a_framework_that_is_not_installed_is_named_with_the_command_that_does_it(cache: Cache) -> None:
    with pytest.raises(
        CommandError, match="argo is not installed; run `volcano frameworks install argo` first"
    ):
        operator_documents(["argo"])


@pytest.mark.parametrize("operator", [True, False])
def test_the_manifests_of_an_installed_operator_are_read(cache: Cache, operator: bool) -> None:
    recipe = recipe_of("argo")
    path = cache.path_of(recipe)
    path.mkdir(parents=True)
    cache.complete(recipe)
    if not operator:
        with pytest.raises(CommandError, match="the framework argo has no operator; leave the flag out"):
            operator_documents(["argo"])
        return
    (path / FILE).write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: argo}\n")
    (document,) = operator_documents(["argo"])
    assert document.manifest["kind"] == "Namespace"
    assert operator_documents([]) == []
