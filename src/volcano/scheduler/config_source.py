"""Where the configuration comes from: a file, or text handed in; the last good one stays in force."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from volcano.clock import Clock
from volcano.log import Log
from volcano.scheduler.engine.config import Config, ConfigError, parse, shipped

log = Log("config")

LOOK_EVERY = 1.0  # seconds


class ConfigSource:
    """The configuration in force, and what is wrong with the newest one, if anything is."""

    def __init__(self, text: str | None = None, file: str = "configuration") -> None:
        """Starts with a text; with None, with the configuration that is shipped."""
        self.file = file
        self.error = ""
        self.ports: Mapping[
            str, Any
        ] = {}  # ways out for plugins, such as {"extender": HttpPort()}; set by the program
        self.features: frozenset[str] = frozenset()  # feature gates that are on; set by the program
        self.on_change: Callable[[], None] = lambda: None
        self._current: Config | None = None
        self._text: str | None = None
        self.offer(shipped() if text is None else text)

    @property
    def current(self) -> Config | None:
        """The last good configuration; None when there never was one."""
        if self._current is None or not (self.ports or self.features):
            return self._current
        return replace(self._current, ports=self.ports, features=self.features)

    def offer(self, text: str) -> bool:
        """Takes a new text in force if it is good; otherwise remembers why not and keeps the last good one."""
        if text == self._text:
            return not self.error
        self._text = text
        try:
            config = parse(text, self.file)
        except ConfigError as error:
            self.error = str(error)
            log.warning("configuration refused", reason=self.error, kept=self._current is not None)
            return False
        for warning in config.warnings:
            log.warning("configuration", warning=warning)
        self.error = ""
        self._current = config
        self.on_change()
        log.info("configuration in force", file=self.file, actions=", ".join(config.actions))
        return True

    async def follow(self, clock: Clock) -> None:
        """Keeps up with where the text comes from; handed-in text needs no following."""


class FileSource(ConfigSource):
    """The configuration in a file, read again whenever it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        super().__init__(self._read() or "", str(path))

    async def follow(self, clock: Clock) -> None:
        while True:
            await clock.sleep(LOOK_EVERY)
            text = self._read()
            if text is not None:
                self.offer(text)

    def _read(self) -> str | None:
        """The text when the file changed since the last look; a mounted ConfigMap changes by a symbolic link."""
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
