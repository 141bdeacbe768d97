"""Probes what an engine can do here: starts a container like a pod's, with fewer options after each error."""

import asyncio
import os
import resource
from collections.abc import Sequence
from dataclasses import replace

from volcano.nodes.runtimes.engine import commands
from volcano.nodes.runtimes.engine import pause_image as pause
from volcano.nodes.runtimes.engine.cli import CommandResult, EngineCLI
from volcano.nodes.runtimes.engine.commands import ClusterRef, EngineCapabilities, EngineProfile
from volcano.nodes.shim.specs import Failure

_HIGH_LIMIT, _LOW_LIMIT = 32768, 1024  # open files, processes
_SELINUX = "/sys/fs/selinux/enforce"
_RLIMIT_ERRORS = ("rlimit",)
_NETWORK_ERRORS = (
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
_LIMIT_ERRORS = ("cgroup", "memory", "cpu", "oom")


async def probe_capabilities(
    engine: EngineCLI, profile: EngineProfile, cluster: ClusterRef
) -> EngineCapabilities:
    """Returns the capabilities; raises a Failure with the engine's error when no container starts at all."""
    result = await engine.call("info", f"--format={profile.info_format}")
    if not result.ok:
        raise Failure("RuntimeUnavailable", f"{engine.name} does not answer: {result.error}")
    architecture, _, facts = result.text.strip().partition(" ")
    rootless = "rootless=true" in facts or "name=rootless" in facts
    capabilities = EngineCapabilities(rootless=rootless, no_selinux_labels=os.path.exists(_SELINUX))
    await _ensure_image(engine, architecture)
    if not await _ensure_network(engine, profile, cluster):
        capabilities = replace(capabilities, network=False)
    while True:
        outcome = await _start_probe(engine, profile, cluster, capabilities)
        if outcome.ok:
            return capabilities
        reduced = _reduced(profile, capabilities, outcome.error)
        if reduced is None:
            raise Failure("RuntimeUnavailable", f"{engine.name} cannot start a container: {outcome.error}")
        capabilities = reduced


def describe_limitations(profile: EngineProfile, capabilities: EngineCapabilities) -> Sequence[str]:
    """Returns sentences for an event: what pods do not have on this engine."""
    limitations = [
        "The API server cannot be reached from pods.",
        "Names of pods are in /etc/hosts; other Services do not resolve.",
        f"imagePullSecrets are not used: {profile.name} pulls with its own logins.",
    ]
    if not capabilities.network:
        limitations.insert(
            0, f"{profile.name} cannot set up a network here: pods have no network and no address."
        )
    if not capabilities.limits:
        limitations.append("Limits on cpu and memory are not enforced.")
    elif not capabilities.cpusets:
        limitations.append(
            f"Containers cannot be limited to CPUs of their own: {profile.name} has no cpuset controller."
        )
    if capabilities.ulimits:
        limitations.append(
            "Processes cannot raise their limits on open files and processes beyond this host's."
        )
    return tuple(limitations)


async def _ensure_image(engine: EngineCLI, architecture: str) -> None:
    if (await engine.call("image", "inspect", pause.IMAGE)).ok:
        return
    if architecture not in pause.ARCHITECTURES:
        known = ", ".join(pause.ARCHITECTURES)
        raise Failure(
            "RuntimeUnavailable", f"no pause program for architecture {architecture!r}; there is {known}"
        )
    result = await engine.call(
        "import", '--change=CMD ["/pause"]', "-", pause.IMAGE, stdin=pause.archive(architecture)
    )
    if not result.ok:
        raise Failure("RuntimeUnavailable", f"{engine.name} import of {pause.IMAGE}: {result.error}")


async def _ensure_network(engine: EngineCLI, profile: EngineProfile, cluster: ClusterRef) -> bool:
    label = f"--label={commands.CLUSTER}={cluster.id}"
    made = await engine.call("network", "create", label, *profile.network_options, cluster.network)
    return made.ok or "already exists" in made.error or "already used" in made.error


async def _start_probe(
    engine: EngineCLI, profile: EngineProfile, cluster: ClusterRef, capabilities: EngineCapabilities
) -> CommandResult:
    created = await engine.call(*commands.create_probe(profile, cluster, capabilities, pause.IMAGE))
    if not created.ok:
        return created
    identifier = created.text.strip().splitlines()[-1]
    try:
        return await engine.call("start", identifier)
    finally:
        await asyncio.shield(engine.call("rm", "--force", *profile.remove_options, identifier))


def _reduced(
    profile: EngineProfile, capabilities: EngineCapabilities, error: str
) -> EngineCapabilities | None:
    """Capabilities to try after an error; None when nothing is left to give up."""
    message = error.lower()
    if any(text in message for text in _RLIMIT_ERRORS) and capabilities.ulimits != _ulimits(_LOW_LIMIT):
        return replace(capabilities, ulimits=_ulimits(_LOW_LIMIT if capabilities.ulimits else _HIGH_LIMIT))
    if capabilities.network and any(text in message for text in _NETWORK_ERRORS):
        return replace(capabilities, network=False)
    if capabilities.limits and capabilities.cpusets and "cpuset" in message:
        return replace(capabilities, cpusets=False)
    if capabilities.limits and any(text in message for text in _LIMIT_ERRORS):
        return replace(capabilities, limits=False)
    return None


def _ulimits(most: int) -> tuple[str, ...]:
    """The hard limits of this process, which need no privilege; engines may lower them slightly."""
    found = []
    for name, number in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
        hard = resource.getrlimit(number)[1]
        value = most if hard == resource.RLIM_INFINITY else min(hard, most)
        found.append(f"{name}={value}:{value}")
    return tuple(found)
