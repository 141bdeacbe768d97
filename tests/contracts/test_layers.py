"""Imports point downwards: a package imports the layers below its own, never its neighbours, never upwards."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import volcano

ROOT = Path(volcano.__file__).parent
TESTS = Path(__file__).parents[1]
LONGEST = 500
Layers = list[set[str]]

# Top to bottom, for the whole of `volcano` and for the inside of its larger packages. A name is a module or a package.
LAYERS: dict[str, Layers] = {
    "": [
        {"cmd", "plugin"},
        {"cli"},
        {"dashboard", "sdk"},
        {"services"},
        {"simulate", "frameworks"},
        {"embedded", "analysis"},
        {"scheduler", "controllers", "webhooks", "apiserver", "nodes"},
        {"views"},
        {"accounting"},
        {"component"},
        {"model"},
        {"kube"},
        {"base"},
    ],
    "kube": [
        {"controllers"},
        {"informers"},
        {"client"},
        {"resources"},
        {"devices", "patches"},
        {"cel"},
        {"api"},
    ],
    "base": [
        {"http"},
        {"progress_line", "workqueue"},
        {
            "captured_log",
            "clock",
            "copying",
            "gc_policy",
            "log",
            "metrics",
            "os_errors",
            "yaml_dumper",
            "yaml_loader",
        },
    ],
    "apiserver": [
        {"server"},
        {"bootstrap"},
        {"endpoints"},
        {"direct", "proxy"},
        {"admission"},
        {"registry"},
        {"authn"},
        {"authz"},
        {"schema"},
        {"storage", "service_endpoints"},
        {"interfaces", "errors", "limits", "warnings", "audit_annotations"},
    ],
    "controllers": [
        {
            "job",
            "queue",
            "podgroup",
            "cronjob",
            "jobflow",
            "hypernode",
            "kubernetes",
            "colocation",
            "notifications",
        },
        {"scheduled_jobs", "probes"},
        {"expiry", "http", "indexes", "metrics", "schedule"},
    ],
    "views": [
        {"board"},
        {"jobs", "queues", "topology"},
        {"nodes"},
        {"pods"},
        {"amounts", "devices", "events"},
        {"columns", "times"},
    ],
    "nodes": [
        {"simulated"},
        {"kubelet"},
        {"runtimes"},
        {"cri", "topology", "heartbeats", "cpu_manager", "numatopology"},
        {"pools"},
        {"shim", "pool_devices", "image_map"},
        {"image_mapping"},
    ],
    "nodes.kubelet": [
        {"kubelet"},
        {"pods"},
        {"device_reports"},
        {"node_status", "images"},
        {"volumes", "probes", "streams", "logs", "dns", "network"},
        {"environment", "devices", "device_claims", "cpus", "hostports", "events"},
        {"node", "container_state", "cpu_layout"},
        {"machine", "options", "probe_state"},
        {"gpus"},
    ],
    "scheduler": [
        {"health"},
        {"loop"},
        {"inputs"},
        {"load", "usage_history"},
        {
            "cluster_informer",
            "config_source",
            "cycle",
            "cycle_sequence",
            "default_queues",
            "node_cleanup",
            "config_map_informer",
            "snapshot_file",
            "writeback",
        },
        {"cycle_timer", "history", "report"},
        {"options"},
        {"actions"},
        {"plugins"},
        {"queue_shares"},
        {"engine"},
    ],
    # The contract with plugins, then the ledger, placement and eviction, topology, and the session on top.
    "scheduler.engine": [
        {"session"},
        {"topology"},
        {"eviction"},
        {"placement"},
        {"cycle"},
        {"policy"},
        {"config"},
        {"plugin_loader", "faults", "ledger"},
        {"plugin"},
        {"hooks"},
        {"reducers"},
        {"answers", "nominations"},
        {"diagnosis", "domain_table", "surplus"},
        {"node_table", "ledger_view", "inputs", "load_settings"},
        {"node_columns", "tally", "arguments", "plugin_metrics", "switches", "timings"},
    ],
    "simulate": [
        {"runner", "whatif"},
        {"loaders", "packing"},
        {"results"},
        {"engine"},
        {"events", "faults", "jobs", "objects"},
        {"workload"},
    ],
    "analysis": [
        {"explain"},
        {"plan", "estimate"},
        {"rerun"},
    ],
    "dashboard": [
        {"server"},
        {"pages", "login"},
        {"guard", "context", "sampler"},
        {"feed", "sessions", "analyses"},
        {"viewer"},
        {"data"},
        {"samples"},
        {"objects"},
        {"rights", "options", "links"},
    ],
    "services": [
        {"submit", "logs", "explain", "plan", "starts"},
        {"job_watch", "usage", "cluster_state", "run_history", "document"},
        {"jobs", "queues", "nodes", "prices"},
        {"objects", "accounting", "connection"},
        {"errors"},
    ],
    "frameworks": [
        {"install"},
        {"cache", "recipes"},
        {"python_images", "operators", "programs"},
        {"recipe"},
        {"installation"},
        {"errors"},
    ],
    "cli": [
        {"volcano"},
        {"program_parser", "slurm", "completion", "help"},
        {"program"},
        {"explain"},
        {
            "job",
            "queue",
            "podgroup",
            "jobflow",
            "reservation",
            "top",
            "topology",
            "fairshare",
            "usage",
            "version",
            "plan",
        },
        {"pod", "plan_screen"},
        {"listing", "accounting"},
        {"flags", "object_events", "objects", "parsing"},
        {"session", "quantities"},
        {"commands", "examples", "printing"},
        {"errors"},
    ],
}
MOST_MODULES = 30  # in one directory


def imports_of(path: Path) -> Iterator[str]:
    """Full names of what a module imports, also for the type checker only, however the import is written."""
    tree = ast.parse(path.read_text())
    package = ("volcano", *path.relative_to(ROOT).parts[:-1]) if path.is_relative_to(ROOT) else ()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(level=0, module=str(module), names=names):
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.ImportFrom(level=level, module=module, names=names) if level > 0:
                base = package[: len(package) - level + 1]
                yield from (".".join([*base, *filter(None, [module]), alias.name]) for alias in names)


def inner_name(full: str, package: str) -> str | None:
    """The module or package directly inside `package` that a full name belongs to."""
    prefix = f"volcano.{package}." if package else "volcano."
    if not full.startswith(prefix):
        return None
    return full.removeprefix(prefix).split(".")[0]


def name_of(path: Path) -> str:
    return ".".join(("volcano", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


def violations(package: str, layers: Layers) -> list[str]:
    level = {name: depth for depth, names in enumerate(layers) for name in names}
    return [
        f"{name_of(path)} imports {target}"
        for path in modules()
        if (own := inner_name(name_of(path), package)) is not None
        for target in imports_of(path)
        if (other := inner_name(target, package)) in level and other != own and level[other] <= level[own]
    ]


def modules() -> list[Path]:
    return [path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py"]


@pytest.mark.parametrize("package", LAYERS)
def test_imports_point_downwards(package: str) -> None:
    assert violations(package, LAYERS[package]) == []


@pytest.mark.parametrize("surface", ["dashboard", "sdk"])
def test_surfaces_do_not_import_the_command_line(surface: str) -> None:
    assert [
        f"{name_of(path)} imports {target}"
        for path in modules()
        if inner_name(name_of(path), "") == surface
        for target in imports_of(path)
        if target.startswith("volcano.cli.")
    ] == []


@pytest.mark.parametrize("package", LAYERS)
def test_layers_name_exactly_what_exists(package: str) -> None:
    folder = ROOT.joinpath(*package.split("."))
    existing = {
        path.stem
        for path in folder.iterdir()
        if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").exists()
    }
    assert set().union(*LAYERS[package]) == existing


def test_no_package_has_too_many_modules() -> None:
    sizes = {folder: len(list(folder.glob("*.py"))) for folder in {path.parent for path in modules()}}
    assert [str(folder.relative_to(ROOT)) for folder, size in sizes.items() if size > MOST_MODULES] == []


@pytest.mark.parametrize(
    "line",
    [
        "import volcano.scheduler.loop",
        "from volcano import scheduler",
        "from volcano.scheduler import loop",
        "if TYPE_CHECKING:\n    from volcano.scheduler import loop",
        "def f() -> None:\n    from volcano.scheduler import loop",
    ],
)
def test_every_way_of_importing_is_caught(line: str, tmp_path: Path) -> None:
    offender = tmp_path / "offender.py"
    offender.write_text(line)
    assert {inner_name(name, "") for name in imports_of(offender)} == {"scheduler"}


@pytest.mark.parametrize("folder", [ROOT, TESTS], ids=["modules", "their tests"])
def test_modules_are_short(folder: Path) -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in folder.rglob("*.py")}
    assert [str(path.relative_to(folder)) for path, lines in lengths.items() if lines > LONGEST] == []


def test_plugins_are_used_through_the_names_that_their_package_exports() -> None:
    plugins = "volcano.scheduler.plugins."
    assert [
        f"{name_of(path)} imports {target}"
        for path in modules()
        if not name_of(path).startswith(plugins)
        for target in imports_of(path)
        if target.startswith(plugins) and target.removeprefix(plugins).count(".") > 1
    ] == []


def test_the_scheduler_knows_its_plugins_by_what_they_declare() -> None:
    plugins = "volcano.scheduler.plugins"
    assert [
        f"{name_of(path)} imports {target}"
        for path in (ROOT / "scheduler").rglob("*.py")
        if not name_of(path).startswith(plugins)
        for target in imports_of(path)
        if target.startswith(plugins)
    ] == []


def test_every_module_says_what_it_is() -> None:
    silent = [str(p.relative_to(ROOT)) for p in modules() if not ast.get_docstring(ast.parse(p.read_text()))]
    assert silent == []
