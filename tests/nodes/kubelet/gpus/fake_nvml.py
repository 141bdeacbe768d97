"""A module with the functions of pynvml that are used, for machines without a GPU."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

MIB = 1 << 20


class NVMLError(Exception):
    pass


@dataclass
class FakeInstance:
    uuid: str
    name: str
    memory: int
    gpu_instance: int = 0
    compute_instance: int = 0
    slices: int = 1


@dataclass
class FakeCard:
    uuid: str
    minor: int = 0
    name: str = "NVIDIA A100-PCIE-40GB"
    total: int = 40960  # MiB
    used: int = 0
    bus: str = "00000000:01:00.0"
    mig: bool | None = None  # None: not supported
    instances: list[FakeInstance] = field(default_factory=list)
    utilization: int | None = 0
    remapping_failed: int = 0
    lost: bool = False
    silent: bool = False  # it is listed, but its state cannot be read


class FakeNvml:
    """As the module, with the cards and the events of a test."""

    NVMLError = NVMLError
    nvmlEventTypeXidCriticalError = 8  # noqa: N815
    nvmlEventTypeDoubleBitEccError = 2  # noqa: N815

    def __init__(self, *cards: FakeCard, events: bool = True) -> None:
        self.found = list(cards)
        self.events: list[tuple[int, FakeCard, int]] = []  # type, card, data
        self.supports_events = events
        self.driver_gone = False

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.found:
            raise NVMLError("Driver Not Loaded")

    def __getattr__(self, name: str) -> Any:
        """Functions whose first argument is a card or an instance."""
        if not name.startswith("nvml"):
            raise AttributeError(name)
        answer = getattr(self, f"_{name.removeprefix('nvml')}")

        def call(*arguments: Any) -> Any:
            if self.driver_gone:
                raise NVMLError("Unknown Error")
            return answer(*arguments)

        return call

    def _DeviceGetCount(self) -> int:  # noqa: N802
        return len(self.found)

    def _DeviceGetHandleByIndex(self, index: int) -> FakeCard:  # noqa: N802
        if self.found[index].lost:
            raise NVMLError("GPU is lost")
        return self.found[index]

    def _DeviceGetUUID(self, handle: FakeCard | FakeInstance) -> str:  # noqa: N802
        return handle.uuid

    def _DeviceGetMinorNumber(self, card: FakeCard) -> int:  # noqa: N802
        return card.minor

    def _DeviceGetName(self, handle: FakeCard | FakeInstance) -> str:  # noqa: N802
        return handle.name

    def _DeviceGetMemoryInfo(self, card: FakeCard) -> Any:  # noqa: N802
        if card.silent:
            raise NVMLError("Unknown Error")
        return SimpleNamespace(total=card.total * MIB, used=card.used * MIB)

    def _DeviceGetPciInfo(self, card: FakeCard) -> Any:  # noqa: N802
        return SimpleNamespace(busId=card.bus)

    def _DeviceGetMigMode(self, card: FakeCard) -> list[int]:  # noqa: N802
        if card.mig is None:
            raise NVMLError("Not Supported")
        return [int(card.mig), int(card.mig)]

    def _DeviceGetMaxMigDeviceCount(self, card: FakeCard) -> int:  # noqa: N802
        return 7

    def _DeviceGetMigDeviceHandleByIndex(self, card: FakeCard, index: int) -> FakeInstance:  # noqa: N802
        if index >= len(card.instances):
            raise NVMLError("Not Found")
        return card.instances[index]

    def _DeviceGetAttributes(self, instance: FakeInstance) -> Any:  # noqa: N802
        return SimpleNamespace(
            memorySizeMB=instance.memory,
            gpuInstanceSliceCount=instance.slices,
            computeInstanceSliceCount=instance.slices,
        )

    def _DeviceGetGpuInstanceId(self, instance: FakeInstance) -> int:  # noqa: N802
        return instance.gpu_instance

    def _DeviceGetComputeInstanceId(self, instance: FakeInstance) -> int:  # noqa: N802
        return instance.compute_instance

    def _DeviceGetUtilizationRates(self, card: FakeCard) -> Any:  # noqa: N802
        if card.utilization is None:
            raise NVMLError("Not Supported")
        return SimpleNamespace(gpu=card.utilization)

    def _DeviceGetTemperature(self, card: FakeCard, sensor: int) -> int:  # noqa: N802
        return 25

    def _DeviceGetPowerUsage(self, card: FakeCard) -> int:  # noqa: N802
        return 78500

    def _DeviceGetRemappedRows(self, card: FakeCard) -> tuple[int, int, int, int]:  # noqa: N802
        return 0, 0, 0, card.remapping_failed

    def _EventSetCreate(self) -> object:  # noqa: N802
        if not self.supports_events:
            raise NVMLError("Not Supported")
        return object()

    def _DeviceGetSupportedEventTypes(self, card: FakeCard) -> int:  # noqa: N802
        return 10

    def _DeviceRegisterEvents(self, card: FakeCard, types: int, events: object) -> None:  # noqa: N802
        return None

    def _EventSetWait(self, events: object, timeout: int) -> Any:  # noqa: N802
        if not self.events:
            raise NVMLError("Timeout")
        kind, card, data = self.events.pop(0)
        return SimpleNamespace(eventType=kind, device=card, eventData=data)
