"""Reads GPUs through NVML, NVIDIA's management library (Python package nvidia-ml-py, optional)."""

import importlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from volcano.base.log import Log
from volcano.nodes.kubelet.gpus.inventory import MIB, Gpu, GpuLoad, MigInstance

log = Log("gpus")

MODULE = "pynvml"
MAX_EVENTS = 100  # read per check: a failing card may report many
# Errors of programs, not of cards: a fault in a kernel, a preempted or reset channel.
APPLICATION_XIDS = frozenset((13, 31, 43, 45, 68, 109))
CELSIUS_SENSOR = 0
ENABLED = 1
LOST = "the GPU is lost"


class GpuReader(Protocol):
    """A source of facts about the GPUs of this host. Calls block for milliseconds; run them in a thread."""

    def cards(self) -> tuple[Gpu, ...]: ...

    def load(self) -> tuple[GpuLoad, ...]: ...

    def problems(self) -> dict[str, str]:
        """Why cards must not be used, by UUID; healthy ones are not in it."""
        ...


class NvmlReader:
    """Reads through a module with the functions of pynvml, which is initialized on construction."""

    def __init__(self, module: Any) -> None:
        self._nvml = module
        self._nvml.nvmlInit()
        self._known: dict[str, int] = {}  # index of each card by UUID: a lost one cannot be asked
        self._failed: dict[str, str] = {}  # critical errors last until the driver is reset
        self._events = self._register_events()

    def cards(self) -> tuple[Gpu, ...]:
        return tuple(self._card(handle) for _, handle in self._handles())

    def load(self) -> tuple[GpuLoad, ...]:
        """The load of the cards that answer."""
        try:
            found = [self._ask(self._load, handle) for _, handle in self._handles()]
        except self._nvml.NVMLError:
            return ()
        return tuple(each for each in found if each is not None)

    def problems(self) -> dict[str, str]:
        self._read_events()
        found = dict(self._failed)
        present = set()
        try:
            handles = list(self._handles())
        except self._nvml.NVMLError as error:  # the driver does not answer at all
            return dict.fromkeys(self._known, str(error)) | found
        for uuid, handle in handles:
            present.add(uuid)
            problem = self._problem(handle)
            if problem:
                found.setdefault(uuid, problem)
        for uuid in self._known.keys() - present:
            found.setdefault(uuid, LOST)
        return found

    def _handles(self) -> Iterator[tuple[str, Any]]:
        """The cards that answer, with their UUIDs."""
        for index in range(self._nvml.nvmlDeviceGetCount()):
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                uuid = self._nvml.nvmlDeviceGetUUID(handle)
            except self._nvml.NVMLError as error:
                log.warning("GPU does not answer", index=index, reason=str(error))
                continue
            self._known[uuid] = index
            yield uuid, handle

    def _card(self, handle: Any) -> Gpu:
        nvml = self._nvml
        partitioned = self._ask(nvml.nvmlDeviceGetMigMode, handle, default=[0])[0] == ENABLED
        return Gpu(
            uuid=nvml.nvmlDeviceGetUUID(handle),
            minor=nvml.nvmlDeviceGetMinorNumber(handle),
            name=nvml.nvmlDeviceGetName(handle),
            memory=nvml.nvmlDeviceGetMemoryInfo(handle).total // MIB,
            bus_id=_bus_id(nvml.nvmlDeviceGetPciInfo(handle).busId),
            partitioned=partitioned,
            instances=tuple(self._instances(handle)) if partitioned else (),
        )

    def _instances(self, handle: Any) -> Iterator[MigInstance]:
        nvml = self._nvml
        for index in range(self._ask(nvml.nvmlDeviceGetMaxMigDeviceCount, handle, default=0)):
            try:
                instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            except nvml.NVMLError:  # not created
                continue
            attributes = nvml.nvmlDeviceGetAttributes(instance)
            gigabytes = (attributes.memorySizeMB + 1023) // 1024
            slices, computes = attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount
            part = f"{computes}c." if computes != slices else ""
            yield MigInstance(
                uuid=nvml.nvmlDeviceGetUUID(instance),
                profile=_profile(nvml.nvmlDeviceGetName(instance)) or f"{part}{slices}g.{gigabytes}gb",
                memory=attributes.memorySizeMB,
                gpu_instance=nvml.nvmlDeviceGetGpuInstanceId(instance),
                compute_instance=nvml.nvmlDeviceGetComputeInstanceId(instance),
            )

    def _load(self, handle: Any) -> GpuLoad:
        nvml = self._nvml
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        rates = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        power = self._ask(nvml.nvmlDeviceGetPowerUsage, handle)
        return GpuLoad(
            uuid=nvml.nvmlDeviceGetUUID(handle),
            utilization=None if rates is None else float(rates.gpu),
            memory_used=memory.used // MIB,
            memory_total=memory.total // MIB,
            temperature=self._ask(lambda each: nvml.nvmlDeviceGetTemperature(each, CELSIUS_SENSOR), handle),
            power=None if power is None else power / 1000,
        )

    def _problem(self, handle: Any) -> str:
        nvml = self._nvml
        try:
            nvml.nvmlDeviceGetMemoryInfo(handle)
        except nvml.NVMLError as error:
            return str(error)
        _, _, _, remapping_failed = self._ask(nvml.nvmlDeviceGetRemappedRows, handle, default=(0, 0, 0, 0))
        return "faulty memory could not be remapped" if remapping_failed else ""

    def _ask(self, question: Callable[[Any], Any], handle: Any, *, default: Any = None) -> Any:
        """An answer that some cards do not have."""
        try:
            return question(handle)
        except self._nvml.NVMLError:
            return default

    def _register_events(self) -> Any:
        """An event set with the errors of all cards that support events; None if no card does."""
        nvml = self._nvml
        try:
            events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError as error:
            log.info("GPU errors are not reported by the driver", reason=str(error))
            return None
        wanted = nvml.nvmlEventTypeXidCriticalError | nvml.nvmlEventTypeDoubleBitEccError
        for uuid, handle in self._handles():
            supported = self._ask(nvml.nvmlDeviceGetSupportedEventTypes, handle, default=0) & wanted
            if not supported:
                continue
            try:
                nvml.nvmlDeviceRegisterEvents(handle, supported, events)
            except nvml.NVMLError as error:
                log.info("GPU errors are not reported by the driver", gpu=uuid, reason=str(error))
        return events

    def _read_events(self) -> None:
        nvml = self._nvml
        if self._events is None:
            return
        for _ in range(MAX_EVENTS):
            try:
                event = nvml.nvmlEventSetWait(self._events, 0)
            except nvml.NVMLError:  # none are left
                return
            if event.eventType == nvml.nvmlEventTypeXidCriticalError and event.eventData in APPLICATION_XIDS:
                continue
            uuid = self._ask(nvml.nvmlDeviceGetUUID, event.device)
            for each in [uuid] if uuid else list(self._known):  # an error of an unknown card is one of all
                self._failed.setdefault(each, _event_text(nvml, event))


def open_nvml() -> NvmlReader | None:
    """The reader of this host; None without nvidia-ml-py, NVIDIA's driver or a GPU."""
    try:
        module = importlib.import_module(MODULE)
    except ImportError:
        return None
    try:
        reader = NvmlReader(module)
        return reader if reader.cards() else None
    except module.NVMLError as error:
        log.debug("NVML is not available", reason=str(error))
        return None


def _event_text(nvml: Any, event: Any) -> str:
    if event.eventType == nvml.nvmlEventTypeDoubleBitEccError:
        return "uncorrectable memory error"
    return f"critical error, XID {event.eventData}"


def _bus_id(text: str) -> str:
    """NVML writes 00000000:00:06.0, the kernel 0000:00:06.0."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _profile(name: str) -> str:
    """The profile in a name such as `NVIDIA A100-SXM4-40GB MIG 1g.5gb`."""
    return name.partition(" MIG ")[2].strip()
