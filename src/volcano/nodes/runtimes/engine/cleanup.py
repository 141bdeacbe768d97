"""Removes the containers, network and pause image of a cluster from an engine, found by their labels."""

import subprocess
from collections.abc import Sequence

from volcano.nodes.runtimes.engine import commands
from volcano.nodes.runtimes.engine.pause_image import IMAGE

_CALL_TIMEOUT = 120.0
_BATCH_SIZE = 50


def remove_cluster(program: str, profile: commands.EngineProfile, cluster: str, *only: str) -> list[str]:
    """Removes containers, then the network of a cluster; `only` adds label filters. Returns what was removed."""
    reference = commands.ClusterRef(cluster)
    removed: list[str] = []
    # Containers that join a sandbox's namespaces must be removed before it.
    parts = (commands.CONTAINER_PART, commands.PROBE_PART, commands.SANDBOX_PART)
    for part in parts:
        filters = reference.filters(f"{commands.PART}={part}", *only)
        found = _listed(program, "ps", "--all", "--quiet", "--no-trunc", *filters)
        for start in range(0, len(found), _BATCH_SIZE):
            some = found[start : start + _BATCH_SIZE]
            _run(program, "rm", "--force", "--volumes", *profile.remove_options, *some)
        removed += [f"{part} {identifier[:12]}" for identifier in found]
    for network in _listed(program, "network", "ls", "--quiet", *reference.filters()):
        if _run(program, "network", "rm", network) is not None:
            removed.append(f"network {network}")
    # The engine keeps the image while another cluster uses it.
    _run(program, "image", "rm", IMAGE)
    return removed


def _listed(program: str, *arguments: str) -> list[str]:
    return (_run(program, *arguments) or "").split()


def _run(program: str, *arguments: str) -> str | None:
    """Runs a command; returns its output, None when it failed."""
    command: Sequence[str] = (program, *arguments)
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_CALL_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ended.stdout.decode(errors="replace") if ended.returncode == 0 else None
