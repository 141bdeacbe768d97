"""Load of GPUs in `vcctl top`: from the metrics of the API server to the screen."""

from dataclasses import replace

from prometheus_client import CollectorRegistry

from tests.views.pictures import node, picture, text_of
from volcano.base.clock import VirtualClock
from volcano.base.metrics import render
from volcano.cli.top.columns import gpu_text
from volcano.cli.top.once import as_data
from volcano.cli.top.view import NODES, Place, View
from volcano.nodes.kubelet.gpus.inventory import Gpu, GpuLoad
from volcano.nodes.kubelet.gpus.metrics import GpuMetrics
from volcano.nodes.kubelet.gpus.monitor import GpuMonitor
from volcano.views.board import board
from volcano.views.devices import GpuFigures, is_measured, parse_gpu_load

GIB = 1 << 30


def figures(**changes: object) -> GpuFigures:
    usual = GpuFigures("n1", "GPU-a", 'NVIDIA "H200"', 0.97, 70 * GIB, 140 * GIB, 61.0, 690.5, True)
    return replace(usual, **changes)  # type: ignore[arg-type]


async def nothing(problems: object) -> None:
    return


def metrics_text() -> str:
    """Metrics of a local node with a busy card and one that failed."""
    cards = (Gpu("GPU-a", 0, 'NVIDIA "H200"', 143360, ""), Gpu("GPU-b", 1, "NVIDIA A100", 40960, ""))
    monitor = GpuMonitor(None, cards, VirtualClock(), nothing)
    monitor.load = (GpuLoad("GPU-a", 97.0, 71680, 143360, 61.0, 690.5), GpuLoad("GPU-b", None, 0, 40960))
    monitor.problems = {"GPU-b": "lost"}
    registry = CollectorRegistry()
    GpuMetrics(lambda: monitor, lambda: {"GPU-a": "n1", "GPU-b": "n2"}, registry)
    return render(registry).decode()


def test_metrics_are_read_back_as_they_were_written() -> None:
    assert parse_gpu_load(metrics_text()) == (
        figures(),
        GpuFigures("n2", "GPU-b", "NVIDIA A100", None, 0.0, 40 * GIB, None, None, False),
    )
    assert parse_gpu_load("# HELP x\napiserver_requests 3\n") == ()


def test_a_host_without_readings_has_no_metrics() -> None:
    registry = CollectorRegistry()
    GpuMetrics(lambda: None, dict, registry)
    assert render(registry) == b""


def test_only_clusters_with_gpus_on_local_nodes_are_asked() -> None:
    local = node("n1", cpu="8")
    local["status"] |= {
        "capacity": {"nvidia.com/gpu": "1"},
        "nodeInfo": {"containerRuntimeVersion": "volcano-netns://1"},
    }
    other = node("n2", cpu="8")
    other["status"] |= {
        "capacity": {"nvidia.com/gpu": "1"},
        "nodeInfo": {"containerRuntimeVersion": "containerd://2"},
    }
    assert is_measured([local, other])
    assert not is_measured([other])
    local["status"]["capacity"] = {"cpu": "8"}
    assert not is_measured([local])


def test_nodes_show_the_load_of_their_gpus() -> None:
    second = figures(uuid="GPU-b", utilization=0.03, memory_used=0.0)
    seen = board(replace(picture(), gpus=[figures(), second]))
    lines = text_of(seen, View((Place(level=NODES),)))
    head = next(line for line in lines if "GPU LOAD" in line)
    row = next(line for line in lines if " n1 " in line)
    assert row[head.index("GPU LOAD") :].startswith(" 50% 70.0/280Gi")
    assert gpu_text([]) == "–"
    assert gpu_text([figures(utilization=None)]) == "   – 70.0/140Gi"
    assert "GPU LOAD" not in "\n".join(text_of(board(picture()), View((Place(level=NODES),))))


def test_the_data_of_gpus_is_complete_where_it_is_known() -> None:
    data = as_data(
        board(replace(picture(), gpus=[figures(), figures(uuid="GPU-b", utilization=None, healthy=False)]))
    )
    assert data["gpus"][0]["utilization"] == 0.97
    assert data["gpus"][0]["memoryUsed"] == 70 * GIB
    assert "utilization" not in data["gpus"][1]
    assert data["gpus"][1]["healthy"] is False
    assert "gpus" not in as_data(board(picture()))
