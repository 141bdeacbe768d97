"""Mapping of images to programs of this host, for runtimes that pull no images."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ImageMapping:
    """Content and configuration of the images whose names match a shell pattern, such as `apache/spark:*`."""

    pattern: str
    # Directories and files of the host, as `SOURCE[:TARGET[:ro|rw]]`: at the same path and read-only by default.
    paths: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()  # of the image; a container's `command` replaces it
    environment: Mapping[str, str] = field(default_factory=dict)  # a container's `env` has precedence
    user: int | None = None  # runAsUser has precedence; None: the default user of the runtime
    arguments: tuple[str, ...] = ()  # of the image; a container's `args` or `command` replaces them
    working_directory: str = ""  # workingDir has precedence
