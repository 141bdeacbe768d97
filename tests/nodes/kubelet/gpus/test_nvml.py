"""NVML: cards, MIG instances, load and failures."""

import sys

import pytest

from tests.nodes.kubelet.gpus.fake_nvml import FakeCard, FakeInstance, FakeNvml
from volcano.nodes.kubelet.gpus.inventory import Gpu, GpuLoad, MigInstance, allocatable_devices
from volcano.nodes.kubelet.gpus.nvml import LOST, NvmlReader, open_nvml

XID = FakeNvml.nvmlEventTypeXidCriticalError
ECC = FakeNvml.nvmlEventTypeDoubleBitEccError


def partitioned() -> FakeCard:
    parts = [
        FakeInstance("MIG-1", "NVIDIA A100 MIG 1g.5gb", 4864, 7),
        FakeInstance("MIG-2", "MIG", 9856, 8, slices=2),
    ]
    return FakeCard("GPU-m", 1, bus="00000000:02:00.0", mig=True, instances=parts, utilization=None)


def test_cards_are_read_with_their_device_files_and_their_memory() -> None:
    reader = NvmlReader(FakeNvml(FakeCard("GPU-a", bus="00000000:41:00.0")))
    assert reader.cards() == (Gpu("GPU-a", 0, "NVIDIA A100-PCIE-40GB", 40960, "0000:41:00.0"),)


def test_mig_instances_are_devices_and_their_card_is_none() -> None:
    (card,) = NvmlReader(FakeNvml(partitioned())).cards()
    assert card.instances == (
        MigInstance("MIG-1", "1g.5gb", 4864, 7, 0),
        MigInstance("MIG-2", "2g.10gb", 9856, 8, 0),
    )
    found = allocatable_devices((card, Gpu("GPU-a", 0, "A100", 1, "")))
    assert found == {
        "nvidia.com/gpu": ("GPU-a",),
        "nvidia.com/mig-1g.5gb": ("MIG-1",),
        "nvidia.com/mig-2g.10gb": ("MIG-2",),
    }


def test_the_load_of_cards_is_read_as_far_as_they_report_it() -> None:
    busy = FakeCard("GPU-a", used=1024, utilization=97)
    load = NvmlReader(FakeNvml(busy, partitioned())).load()
    assert load == (
        GpuLoad("GPU-a", 97.0, 1024, 40960, 25, 78.5),
        GpuLoad("GPU-m", None, 0, 40960, 25, 78.5),
    )


def test_healthy_cards_have_no_problem() -> None:
    assert NvmlReader(FakeNvml(FakeCard("GPU-a"), events=False)).problems() == {}


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        pytest.param({"remapping_failed": 1}, "faulty memory could not be remapped", id="memory"),
        pytest.param({"silent": True}, "Unknown Error", id="no answer"),
        pytest.param({"lost": True}, LOST, id="lost"),
    ],
)
def test_a_failing_card_is_found_and_works_again_when_it_does(fault: dict[str, bool], text: str) -> None:
    card = FakeCard("GPU-a")
    reader = NvmlReader(FakeNvml(card, FakeCard("GPU-b", 1)))
    for name, value in fault.items():
        setattr(card, name, value)
    assert reader.problems() == {"GPU-a": text}
    for name in fault:
        setattr(card, name, False)
    assert reader.problems() == {}


@pytest.mark.parametrize(
    ("event", "problems"),
    [
        pytest.param((XID, 79), {"GPU-b": "critical error, XID 79"}, id="critical error"),
        pytest.param((ECC, 0), {"GPU-b": "uncorrectable memory error"}, id="memory error"),
        pytest.param((XID, 31), {}, id="fault of a program"),
    ],
)
def test_errors_that_the_driver_reports_last(event: tuple[int, int], problems: dict[str, str]) -> None:
    failing = FakeCard("GPU-b", 1)
    module = FakeNvml(FakeCard("GPU-a"), failing)
    reader = NvmlReader(module)
    module.events.append((event[0], failing, event[1]))
    assert reader.problems() == problems
    assert reader.problems() == problems


def test_a_driver_that_does_not_answer_makes_all_cards_fail() -> None:
    module = FakeNvml(FakeCard("GPU-a"), FakeCard("GPU-b", 1))
    reader = NvmlReader(module)
    module.driver_gone = True
    assert reader.problems() == {"GPU-a": "Unknown Error", "GPU-b": "Unknown Error"}
    assert reader.load() == ()


def test_a_host_without_the_library_or_without_a_driver_has_no_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert open_nvml() is None
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    assert open_nvml() is None
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FakeCard("GPU-a")))
    assert open_nvml() is not None
