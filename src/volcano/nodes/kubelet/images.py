"""Mapped images on runtimes that pull none: what a container runs, and the host directories it gets."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from volcano.kube.api.manifest import Manifest, key_of
from volcano.nodes.image_map import mapped_path
from volcano.nodes.image_mapping import ImageMapping
from volcano.nodes.kubelet.options import KubeletOptions
from volcano.nodes.kubelet.volumes.hostpaths import check_host_path
from volcano.nodes.kubelet.volumes.payload import MountError
from volcano.nodes.shim.specs import Failure, Mount

CONFIG_ERROR = "CreateContainerConfigError"
FindImage = Callable[[str], ImageMapping | None]
HINT = "or map the image to programs of this host, with `volcano up --images FILE` or `volcano frameworks install NAME`"


def no_image(image: str) -> None:
    """Finds no mapping."""


def command_in_image(
    pod: Manifest,
    container: Mapping[str, Any],
    mapping: ImageMapping | None,
    command: Sequence[str],
    arguments: Sequence[str],
) -> tuple[str, ...]:
    """What a container runtime would run: `command` replaces the entry point, `args` the arguments of the image.

    Raises a Failure that says what to do if nothing says what to run.
    """
    if command:
        return (*command, *arguments)
    if mapping is not None and (mapping.entrypoint or arguments or mapping.arguments):
        return (*mapping.entrypoint, *(arguments or mapping.arguments))
    image = container.get("image", "")
    where = f"pod {key_of(pod)}, container {container['name']}"
    if arguments:
        raise Failure(
            CONFIG_ERROR,
            f"{where}: args are set without a command, and the entry point of image {image!r} is not known: images "
            f'are not pulled here; set command, as in command: ["python3"], {HINT}',
        )
    raise Failure(
        CONFIG_ERROR,
        f"{where}: neither command nor args are set, and the image {image!r} is not pulled here; write what to run, "
        f'as in command: ["python3", "train.py"], {HINT}',
    )


def image_mounts(
    container: Mapping[str, Any],
    mapping: ImageMapping | None,
    options: KubeletOptions,
    *,
    shares_files: bool,
) -> tuple[Mount, ...]:
    """The directories and files of a mapped image. Containers that share the host's files have them already.

    Raises a Failure for a path that does not exist, or that contains keys of the cluster.
    """
    mounts = []
    for path in map(mapped_path, mapping.paths) if mapping else ():
        where = f"image map: path {path.source} of image {container.get('image', '')!r}"
        if not os.path.exists(path.source):
            raise Failure(
                CONFIG_ERROR,
                f"{where} does not exist on this host; install what belongs there, or correct the image map",
            )
        try:
            check_host_path(path.source, (options.directory, *options.private))
        except MountError as error:
            raise Failure(CONFIG_ERROR, f"{where}: {error}") from None
        if not shares_files or path.source != path.target:
            kept = os.path.realpath(options.directory)
            mounts.append(Mount(path.source, path.target, read_only=not path.writable, apart_from=kept))
    return tuple(mounts)
