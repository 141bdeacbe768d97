"""The image map of a cluster: a ConfigMap that `volcano up` writes, users may edit, and the kubelet reads.

Its key `images.yaml` is the user's; `frameworks.yaml` has the installed frameworks and follows their installation.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.kube.api.errors import NotFound
from volcano.kube.api.events import reference_to
from volcano.kube.api.kinds import CONFIG_MAP
from volcano.kube.api.manifest import Key
from volcano.kube.api.names import SYSTEM_NAMESPACE
from volcano.kube.client.protocol import Client, Event, EventType, Options, PatchType, Watch
from volcano.kube.informers.shared_informers import EventHandler, SharedInformerFactory
from volcano.nodes.image_map import ImageMap, ImageMapError, as_yaml, parse
from volcano.nodes.image_mapping import ImageMapping

log = Log("local")

CONFIG_MAP_NAME = "volcano-image-map"
USER_KEY, FRAMEWORKS_KEY = "images.yaml", "frameworks.yaml"
KEYS = (USER_KEY, FRAMEWORKS_KEY)  # in order of precedence
INVALID = "InvalidImageMap"  # event reason
POLL_SECONDS = 2.0
WATCH = Watch(CONFIG_MAP, namespace=SYSTEM_NAMESPACE, fields=f"metadata.name={CONFIG_MAP_NAME}")


def no_files() -> Iterable[Path]:
    return ()


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """`text` is a file of the user, None to keep the one of an earlier start; `files` are those of installed
    frameworks, read again when they change."""

    text: str | None = None
    files: Callable[[], Iterable[Path]] = no_files


class ImageMapPublisher:
    """Writes the image map of a cluster."""

    def __init__(self, options: ImageOptions, client: Client, clock: Clock) -> None:
        self._options = options
        self._client = client
        self._clock = clock
        self._published: list[tuple[Path, int]] = []

    async def publish(self) -> None:
        """Writes the map of this start; one that a user has edited stays if this start has none."""
        self._published = self._versions()
        await self._write(
            {FRAMEWORKS_KEY: self._frameworks()}
            | ({} if self._options.text is None else {USER_KEY: self._options.text})
        )

    async def run(self) -> None:
        """Publishes frameworks that are installed or removed while the cluster runs."""
        while True:
            await self._clock.sleep(POLL_SECONDS)
            versions = self._versions()
            if versions != self._published:
                await self._write({FRAMEWORKS_KEY: self._frameworks()})
                self._published = versions
                log.info("image map of installed frameworks published", files=len(versions))

    def _versions(self) -> list[tuple[Path, int]]:
        found = []
        for path in self._options.files():
            try:
                found.append((path, path.stat().st_mtime_ns))
            except OSError:  # removed meanwhile
                continue
        return found

    def _frameworks(self) -> str:
        mappings: list[ImageMapping] = []
        for path in self._options.files():
            try:
                mappings += parse(path.read_text(), str(path))
            except (OSError, ImageMapError) as error:
                log.warning("image map of a framework skipped", file=str(path), reason=str(error))
        return as_yaml(mappings)

    async def _write(self, data: Mapping[str, str]) -> None:
        options = Options(patch_type=PatchType.MERGE, field_manager="volcano")
        key = Key(SYSTEM_NAMESPACE, CONFIG_MAP_NAME)
        try:
            await self._client.patch(CONFIG_MAP, key, {"data": dict(data)}, options=options)
        except NotFound:
            metadata = {"namespace": SYSTEM_NAMESPACE, "name": CONFIG_MAP_NAME}
            manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}
            await self._client.create(CONFIG_MAP, manifest)


class ImageMapInformer:
    """The image map as it is now. A key that is not valid keeps its last valid content."""

    def __init__(self, warn: Callable[[Mapping[str, Any], str, str], None]) -> None:
        """`warn` records an event about an object, with a reason and a message."""
        self._warn = warn
        self._maps: dict[str, tuple[ImageMapping, ...]] = {}
        self._map = ImageMap()

    def find(self, image: str) -> ImageMapping | None:
        return self._map.find(image)

    @asynccontextmanager
    async def watching(self, informers: SharedInformerFactory) -> AsyncIterator[EventHandler]:
        """Follows the ConfigMap; the block begins when the map has been read and must await `wait_stopped()`."""
        with informers.add_event_handler(WATCH, self._on_event) as handler:
            await handler.synced.wait()
            yield handler

    def _on_event(self, event: Event) -> None:
        if event.type is EventType.BOOKMARK:
            return
        data = {} if event.type is EventType.DELETED else event.object.get("data") or {}
        for key in KEYS:
            try:
                source = f"ConfigMap {SYSTEM_NAMESPACE}/{CONFIG_MAP_NAME}, {key}"
                self._maps[key] = parse(data.get(key) or "", source)
            except ImageMapError as error:
                log.warning("image map not valid, keeping the last one", reason=str(error))
                regarding = reference_to({"apiVersion": "v1", "kind": "ConfigMap", **event.object})
                self._warn(regarding, INVALID, f"{error}; the last valid content stays in use")
        self._map = ImageMap([mapping for key in KEYS for mapping in self._maps.get(key, ())])
