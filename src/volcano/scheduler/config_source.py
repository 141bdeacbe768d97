"""Sources of the scheduler configuration: a given text, or a file that is re-read when it changes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.scheduler.engine.config import Config, ConfigError, parse, shipped

log = Log("config")

POLL_INTERVAL = 1.0  # seconds


class ConfigSource:
    """The last valid configuration, and the error of the newest one if it is invalid."""

    def __init__(
        self,
        text: str | None = None,
        file: str = "configuration",
        *,
        ports: Mapping[str, Any] | None = None,
        features: frozenset[str] = frozenset(),
    ) -> None:
        """Starts with a text, or with the default configuration when it is None.

        `ports` are network clients of plugins, such as {"extender": HttpPort()}; `features` the enabled feature gates.
        """
        self.file = file
        self.error = ""
        self.current: Config | None = None  # None until a valid configuration was loaded
        self._ports = ports or {}
        self._features = features
        self._text: str | None = None
        self.load(shipped() if text is None else text)

    @property
    def warning(self) -> str:
        """Parts of the newest text that are not in effect although a configuration is, for /readyz; "" for none."""
        if self.current is None:
            return ""
        rejected = (f"{self.error}; the previous configuration is used",) if self.error else ()
        return "; ".join((*rejected, *self.current.not_provided))

    def load(self, text: str) -> bool:
        """Replaces the configuration if the text is valid, otherwise records the error; returns whether it is new."""
        if text == self._text:
            return False
        self._text = text
        try:
            config = parse(text, self.file)
        except ConfigError as error:
            self.error = str(error)
            log.warning("configuration rejected", reason=self.error, kept=self.current is not None)
            return False
        for warning in config.warnings:
            log.warning("configuration warning", warning=warning)
        self.error = ""
        self.current = replace(config, ports=self._ports, features=self._features)
        log.info("configuration loaded", file=self.file, actions=", ".join(config.actions))
        return True

    async def watch(self, clock: Clock, on_change: Callable[[], None]) -> None:
        """Loads the text whenever it changes and calls `on_change` after it did; a given text never changes."""


class FileSource(ConfigSource):
    """Configuration in a file, re-read whenever it changes."""

    def __init__(
        self, path: Path, *, ports: Mapping[str, Any] | None = None, features: frozenset[str] = frozenset()
    ) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        super().__init__(self._read() or "", str(path), ports=ports, features=features)

    async def watch(self, clock: Clock, on_change: Callable[[], None]) -> None:
        while True:
            await clock.sleep(POLL_INTERVAL)
            text = self._read()
            if text is not None and self.load(text):
                on_change()

    def _read(self) -> str | None:
        """The text when the file changed since the last call; a mounted ConfigMap changes by a symbolic link."""
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_ino)
            if stamp == self._stamp:
                return None
            self._stamp = stamp
            return self._path.read_text()
        except OSError as error:
            self.error = f"{self._path}: {error.strerror}"
            return None
