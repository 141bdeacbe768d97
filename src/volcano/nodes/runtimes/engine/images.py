"""Images: pulled as their policy says, one at a time each, with growing pauses after a refusal."""

import asyncio
import json
from collections import defaultdict
from dataclasses import dataclass

from volcano.clock import Clock
from volcano.nodes.runtimes.engine.calls import Engine
from volcano.nodes.shim.specs import ContainerSpec, Failure

FIRST_PAUSE, LONGEST_PAUSE = 10.0, 300.0
PULL_PATIENCE = 3600.0


@dataclass(frozen=True, slots=True)
class Trouble:
    """A pull that failed: until when nobody tries again, and why."""

    until: float  # monotonic
    pause: float
    message: str


class Images:
    """What pods run."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._troubles: dict[str, Trouble] = {}

    async def ensure(self, spec: ContainerSpec) -> None:
        """Has the image here, or raises a Failure as a kubelet words it."""
        image = spec.image
        if not image or any(mark.isspace() for mark in image):
            raise Failure(
                "InvalidImageName", f'Failed to apply default image tag "{image}": not an image name'
            )
        policy = spec.pull_policy or default_policy(image)
        async with self._turns[image]:
            present = policy != "Always" and (await self._engine.call("image", "inspect", image)).well
            if not present and policy == "Never":
                text = f'Container image "{image}" is not present with pull policy of Never'
                raise Failure("ErrImageNeverPull", text)
            if not present:
                await self._pull(image)

    async def check_user(self, spec: ContainerSpec) -> None:
        """Refuses an image that would run as root where that must not be."""
        if not spec.identity.not_root:
            return
        answer = await self._engine.call("image", "inspect", spec.image)
        found = json.loads(answer.text) if answer.well else []
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
        before = self._troubles.get(image)
        now = self._clock.now().monotonic
        if before is not None and now < before.until:
            text = f'Back-off pulling image "{image}": ErrImagePull: {before.message}'
            raise Failure("ImagePullBackOff", text)
        answer = await self._engine.call("pull", "--quiet", image, patience=PULL_PATIENCE)
        if answer.well:
            self._troubles.pop(image, None)
            return
        pause = min(2 * before.pause, LONGEST_PAUSE) if before is not None else FIRST_PAUSE
        message = f'failed to pull image "{image}": {answer.complaint}'
        # The agent tries again every ten seconds; a pause is over when its last one is.
        self._troubles[image] = Trouble(self._clock.now().monotonic + pause - 1.0, pause, message)
        raise Failure("ErrImagePull", message)


def default_policy(image: str) -> str:
    """As Kubernetes fills it in: what may have changed is asked for again."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"
