"""Discovery of job plugins: one file or one entry point is enough, and misspelled hooks are rejected."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controllers.job.world import CountedKeys, job, submit, world
from volcano.controllers.job import plugins as package
from volcano.controllers.job.plugins import loading
from volcano.controllers.job.plugins.loading import (
    built_in_plugins,
    known_plugins,
    load_plugins,
    plugin_class,
)
from volcano.controllers.job.plugins.plugin import Plugin, PluginError

ORDER = ["svc", "ssh", "env", "tensorflow", "mpi", "pytorch", "ray", "hcclrank"]
RACK = '''"""rack: labels each pod with its rack."""

from volcano.controllers.job.plugins.plugin import Plugin


class Rack(Plugin):
    defaults = {{"size": 8}}

    def {hook}(self, pod, job, task, index):
        pod["metadata"]["labels"]["rack"] = str(index // self.arguments.number("size"))
        return pod
'''


@pytest.fixture
def fresh() -> Iterator[None]:
    """Discovery without what earlier tests have found, and without a trace for later ones."""
    for cached in (loading.built_in_plugins, loading._entry_point):
        cached.cache_clear()
    yield
    for cached in (loading.built_in_plugins, loading._entry_point):
        cached.cache_clear()


def install(folder: Path, package: str, *, hook: str = "decorate", name: str = "rack") -> None:
    """Installs a distribution that offers a job plugin."""
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text(RACK.format(hook=hook))
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[volcano.job.plugins]\n{name} = {package}:Rack\n")


def test_built_in_plugins_are_found_by_their_file_in_working_order() -> None:
    assert list(built_in_plugins()) == ORDER
    loaded = load_plugins({name: [] for name in reversed(ORDER)}, CountedKeys())
    assert [plugin.name for plugin in loaded] == ORDER


def test_one_more_file_in_the_package_is_one_more_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    (tmp_path / "rack.py").write_text(RACK.format(hook="decorate"))
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    assert list(built_in_plugins()) == [*ORDER, "rack"]
    (plugin,) = load_plugins({"rack": ["--size=2"]}, CountedKeys())
    assert plugin.arguments.number("size") == 2


def test_an_installed_distribution_offers_a_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    cluster = world()
    submit(cluster, job("early", plugins={"rack": []}))
    assert "there is no job plugin 'rack'" in cluster.job("early")["status"]["state"]["message"]
    install(tmp_path, "volcano_rack_offered")
    monkeypatch.syspath_prepend(tmp_path)
    assert known_plugins() == (*ORDER, "rack")
    submit(cluster, job("late", plugins={"rack": ["--size=1"], "env": []}))
    cluster.settle()
    assert [pod["metadata"]["labels"]["rack"] for pod in cluster.pods("late")] == ["0", "1"]


def test_a_built_in_plugin_cannot_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    install(tmp_path, "volcano_rack_replacing", name="env")
    monkeypatch.syspath_prepend(tmp_path)
    assert plugin_class("env").__name__ == "Env"
    assert known_plugins() == tuple(ORDER)


@pytest.mark.parametrize(
    ("hook", "nearest"), [("decorat", "decorate"), ("decorate_pod", "decorate"), ("extra", "extras")]
)
def test_a_misspelled_hook_is_rejected_with_the_nearest_match(
    hook: str, nearest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    install(tmp_path, f"volcano_rack_{hook}", hook=hook)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        PluginError, match=rf"job plugin 'rack': Rack.{hook} is not a hook; did you mean '{nearest}'\?"
    ):
        plugin_class("rack")


def test_a_misspelled_hook_of_a_base_class_is_found_and_private_names_are_allowed(fresh: None) -> None:
    class Base(Plugin):
        _sizes = (1, 2)

        def _helper(self) -> None: ...

    class Derived(Base):
        pass

    assert loading._checked("fine", Derived) is Derived
    Base.default = {"size": 8}  # type: ignore[attr-defined]
    with pytest.raises(PluginError, match="did you mean 'defaults'"):
        loading._checked("wrong", Derived)


def test_two_plugins_in_one_file_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    text = RACK.format(hook="decorate")
    (tmp_path / "two.py").write_text(text + "\n\nclass Second(Plugin):\n    pass\n")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    with pytest.raises(PluginError, match="several plugin classes"):
        built_in_plugins()
