"""Pulls images by their pull policy, one pull per image at a time, with back-off after errors."""

import asyncio
import json
from collections import defaultdict
from dataclasses import dataclass

from volcano.base.clock import Clock
from volcano.base.workqueue import Backoff
from volcano.nodes.runtimes.engine.cli import EngineCLI
from volcano.nodes.shim.specs import ContainerSpec, Failure

PULL_BACKOFF = Backoff(first=10.0, longest=300.0)
PULL_TIMEOUT = 3600.0


@dataclass(frozen=True, slots=True)
class PullFailure:
    """A failed pull: when to try again, and why it failed."""

    until: float  # monotonic
    count: int  # of failures in a row
    message: str


class ImagePuller:
    """Makes images present on the engine."""

    def __init__(self, engine: EngineCLI, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._failures: dict[str, PullFailure] = {}

    async def ensure(self, spec: ContainerSpec) -> None:
        """Pulls the image if its policy requires it; raises a Failure with the kubelet's reason and message."""
        image = spec.image
        if not image or any(character.isspace() for character in image):
            raise Failure(
                "InvalidImageName", f'Failed to apply default image tag "{image}": not an image name'
            )
        policy = spec.pull_policy or default_policy(image)
        async with self._locks[image]:
            present = policy != "Always" and (await self._engine.call("image", "inspect", image)).ok
            if not present and policy == "Never":
                text = f'Container image "{image}" is not present with pull policy of Never'
                raise Failure("ErrImageNeverPull", text)
            if not present:
                await self._pull(image)

    async def check_user(self, spec: ContainerSpec) -> None:
        """Rejects an image that runs as root where runAsNonRoot is set."""
        if not spec.identity.not_root:
            return
        result = await self._engine.call("image", "inspect", spec.image)
        found = json.loads(result.text) if result.ok else []
        user = str((found[0].get("Config") or {}).get("User") or "") if found else ""
        name = user.partition(":")[0]
        if name in ("", "0"):
            why = "container has runAsNonRoot and image will run as root"
        elif not name.isdigit():
            why = f"container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root"
        else:
            return
        raise Failure("CreateContainerConfigError", f"{why} (container: {spec.name})")

    async def _pull(self, image: str) -> None:
        before = self._failures.get(image)
        now = self._clock.now().monotonic
        if before is not None and now < before.until:
            text = f'Back-off pulling image "{image}": ErrImagePull: {before.message}'
            raise Failure("ImagePullBackOff", text)
        result = await self._engine.call("pull", "--quiet", image, timeout=PULL_TIMEOUT)
        if result.ok:
            self._failures.pop(image, None)
            return
        count = before.count if before is not None else 0
        message = f'failed to pull image "{image}": {result.error}'
        # The kubelet retries every ten seconds; the back-off must be over by then.
        self._failures[image] = PullFailure(
            self._clock.now().monotonic + PULL_BACKOFF.delay(count) - 1.0, count + 1, message
        )
        raise Failure("ErrImagePull", message)


def default_policy(image: str) -> str:
    """Default imagePullPolicy, as Kubernetes sets it."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"
