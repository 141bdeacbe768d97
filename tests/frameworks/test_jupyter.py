"""The SDK in a kernel of Jupyter, as the cells of a notebook use it."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Embedded
from tests.embedded.program import paths
from volcano.embedded.options import LocalNodeOptions
from volcano.frameworks.cache import Cache
from volcano.frameworks.errors import NotAvailable
from volcano.frameworks.install import install
from volcano.frameworks.recipe import Installation, Recipe

pytestmark = pytest.mark.frameworks

# Reads the sources of cells and writes what each of them shows.
NOTEBOOK = """
import json, sys
import nbformat
from nbclient import NotebookClient

cells = [nbformat.v4.new_code_cell(source) for source in json.load(sys.stdin)]
notebook = nbformat.v4.new_notebook(cells=cells)
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
json.dump([cell.outputs for cell in notebook.cells], sys.stdout)
"""
# Runs one cell, and interrupts it when it has printed a line; then asks for a sum.
INTERRUPT = """
import json, sys
from jupyter_client.manager import start_new_kernel

manager, client = start_new_kernel(kernel_name="python3", startup_timeout=120)
try:
    cell = client.execute(json.load(sys.stdin))
    while client.get_iopub_msg(timeout=120)["msg_type"] != "stream":
        pass
    manager.interrupt_kernel()
    while (reply := client.get_shell_msg(timeout=60))["parent_header"]["msg_id"] != cell:
        pass
    interrupted = reply["content"]
    after = client.execute_interactive("print(40 + 2)", timeout=60, output_hook=lambda message: None)["content"]
    json.dump([interrupted.get("ename"), after["status"]], sys.stdout)
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
"""
PART = """
def part(total):
    import os
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    print("worker", rank, "of", size)
    return sum(range(rank, total, size)) * factor
"""
SMALL = 'workers=2, cpus="50m", memory="64Mi"'


@pytest.fixture(scope="module")
def kernel() -> Path:
    """A virtual environment with a kernel, in the cache of frameworks."""

    def packages(installation: Installation) -> None:
        installation.pip("ipykernel==7.4.0", "nbclient==0.11.0")

    recipe = Recipe("jupyter", "7.4.0", "A kernel for notebooks", "100 MB", packages, lambda path: ())
    try:
        return install(recipe, Cache(), lambda line: None) / "venv"
    except NotAvailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    cluster = Embedded(tmp_path_factory.mktemp("jupyter"), local=LocalNodeOptions(nodes=1), pools=())
    yield cluster
    cluster.close()


def drive(kernel: Path, embedded: Embedded, directory: Path, driver: str, cells: object) -> Any:
    """What a driver writes about the cells that it runs, as a user of the cluster."""
    environment = {
        **os.environ,
        "KUBECONFIG": str(embedded.cluster.kubeconfig),
        "PYTHONPATH": paths(),
        "HOME": str(directory),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "VIRTUAL_ENV": str(kernel),
        "PATH": f"{kernel}/bin:{os.environ['PATH']}",
    }
    done = subprocess.run(
        [kernel / "bin" / "python", "-c", driver],
        input=json.dumps(cells),
        capture_output=True,
        text=True,
        check=False,
        timeout=420,
        cwd=directory,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_function_of_a_notebook_runs_as_a_gang(kernel: Path, embedded: Embedded, tmp_path: Path) -> None:
    cells = [
        "import asyncio\nfrom volcano.sdk import Cluster, Queue, run",
        "asyncio.get_running_loop().is_running()",  # cells run inside of an event loop
        f"factor = 3\n{PART}",
        f"submitted = run(part, 1000, {SMALL})\nsum(submitted.results(timeout=120))",
        "print(submitted.logs(rank=1), end='')",
        "submitted",
        "def fails():\n    raise ValueError('no such dataset')",
        f"try:\n    run(fails, {SMALL}).results(timeout=120)\n"
        "except Exception as error:\n    print(repr(error.__cause__))",
        "Cluster().queues.create(Queue.new('notebook', weight=2))",
    ]
    shown = [_text(outputs) for outputs in drive(kernel, embedded, tmp_path, NOTEBOOK, cells)]
    name = shown[5].split()[1]  # with its namespace
    assert shown == [
        "",
        "True",
        "",
        str(3 * sum(range(1000))),
        "worker 1 of 2\n",
        f"<Run {name} Completed, 0 running of 2>",
        "",
        "ValueError('no such dataset')\n",
        "<Queue notebook Open, weight 2>",
    ]


def test_a_cell_that_waits_for_results_can_be_interrupted(
    kernel: Path, embedded: Embedded, tmp_path: Path
) -> None:
    cell = (
        "import time\nfrom volcano.sdk import run\n"
        f"submitted = run(lambda: time.sleep(600), {SMALL})\nprint('waits', flush=True)\nsubmitted.results()"
    )
    assert drive(kernel, embedded, tmp_path, INTERRUPT, cell) == ["KeyboardInterrupt", "ok"]


def _text(outputs: list[dict[str, Any]]) -> str:
    """What a cell prints and returns, without its progress."""
    shown = (each for each in outputs if each.get("name") != "stderr")
    return "".join(each["text"] if "text" in each else each["data"]["text/plain"] for each in shown)
