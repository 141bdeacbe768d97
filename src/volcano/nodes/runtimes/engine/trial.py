"""What an engine can do on this machine: a container like a pod's is started, with less and less asked of it."""

import asyncio
import os
import resource
from collections.abc import Sequence
from dataclasses import replace

from volcano.nodes.runtimes.engine import commands as commands
from volcano.nodes.runtimes.engine import pause_image as pause
from volcano.nodes.runtimes.engine.calls import Answer, Engine
from volcano.nodes.runtimes.engine.commands import Abilities, Belonging, Flavour
from volcano.nodes.shim.specs import Failure

_MOST, _FEWEST = 32768, 1024  # open files, processes
_SELINUX = "/sys/fs/selinux/enforce"
_RLIMIT_WORDS = ("rlimit",)
_NETWORK_WORDS = (
    "netavark",
    "network",
    "cni",
    "iptables",
    "nftables",
    "bridge",
    "slirp4netns",
    "pasta",
    "aardvark",
)
_LIMIT_WORDS = ("cgroup", "memory", "cpu", "oom")


async def find_out(engine: Engine, flavour: Flavour, belonging: Belonging) -> Abilities:
    """Tries; raises a Failure with the engine's words when nothing starts at all."""
    answer = await engine.call("info", f"--format={flavour.facts}")
    if not answer.well:
        raise Failure("RuntimeUnavailable", f"{engine.name} does not answer: {answer.complaint}")
    architecture, _, facts = answer.text.strip().partition(" ")
    rootless = "rootless=true" in facts or "name=rootless" in facts
    able = Abilities(rootless=rootless, unlabelled=os.path.exists(_SELINUX))
    await _ensure_image(engine, architecture)
    if not await _ensure_network(engine, flavour, belonging):
        able = replace(able, network=False)
    while True:
        outcome = await _try(engine, flavour, belonging, able)
        if outcome.well:
            return able
        humbler = _humbler(flavour, able, outcome.complaint)
        if humbler is None:
            raise Failure(
                "RuntimeUnavailable", f"{engine.name} cannot start a container: {outcome.complaint}"
            )
        able = humbler


def limitations(flavour: Flavour, able: Abilities) -> Sequence[str]:
    """What pods have to do without, in words for an event."""
    told = [
        "The API server cannot be reached from pods.",
        "Names of pods are in /etc/hosts; other Services do not resolve.",
        f"imagePullSecrets are not used: {flavour.name} pulls with its own logins.",
    ]
    if not able.network:
        told.insert(0, f"{flavour.name} cannot set up a network here: pods reach nobody and have no address.")
    if not able.limits:
        told.append("Limits on cpu and memory are not enforced.")
    if able.ulimits:
        told.append("Processes cannot raise their limits on open files and processes beyond this host's.")
    return tuple(told)


async def _ensure_image(engine: Engine, architecture: str) -> None:
    if (await engine.call("image", "inspect", pause.IMAGE)).well:
        return
    if architecture not in pause.ARCHITECTURES:
        known = ", ".join(pause.ARCHITECTURES)
        raise Failure(
            "RuntimeUnavailable", f"no pause program for architecture {architecture!r}; there is {known}"
        )
    answer = await engine.call(
        "import", '--change=CMD ["/pause"]', "-", pause.IMAGE, given=pause.archive(architecture)
    )
    if not answer.well:
        raise Failure("RuntimeUnavailable", f"{engine.name} import of {pause.IMAGE}: {answer.complaint}")


async def _ensure_network(engine: Engine, flavour: Flavour, belonging: Belonging) -> bool:
    label = f"--label={commands.CLUSTER}={belonging.cluster}"
    made = await engine.call("network", "create", label, *flavour.networks, belonging.network)
    return made.well or "already exists" in made.complaint or "already used" in made.complaint


async def _try(engine: Engine, flavour: Flavour, belonging: Belonging, able: Abilities) -> Answer:
    created = await engine.call(*commands.create_trial(flavour, belonging, able, pause.IMAGE))
    if not created.well:
        return created
    identifier = created.text.strip().splitlines()[-1]
    try:
        return await engine.call("start", identifier)
    finally:
        await asyncio.shield(engine.call("rm", "--force", *flavour.removes, identifier))


def _humbler(flavour: Flavour, able: Abilities, complaint: str) -> Abilities | None:
    """What to ask for after a refusal; None when there is nothing left to do without."""
    said = complaint.lower()
    if any(word in said for word in _RLIMIT_WORDS) and able.ulimits != _ulimits(_FEWEST):
        return replace(able, ulimits=_ulimits(_FEWEST if able.ulimits else _MOST))
    if able.network and any(word in said for word in _NETWORK_WORDS):
        return replace(able, network=False)
    if able.limits and any(word in said for word in _LIMIT_WORDS):
        return replace(able, limits=False)
    return None


def _ulimits(most: int) -> tuple[str, ...]:
    """What this process may have at most, for which nobody needs a right; engines lower their own limits a little."""
    found = []
    for name, number in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
        hard = resource.getrlimit(number)[1]
        value = most if hard == resource.RLIM_INFINITY else min(hard, most)
        found.append(f"{name}={value}:{value}")
    return tuple(found)
