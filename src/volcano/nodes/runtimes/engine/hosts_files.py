"""Hosts files of pods without a name server, from the names and addresses of all pods."""

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from volcano.nodes.shim.specs import SandboxSpec

HEADING = "\n# Other pods of this host.\n"
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class PodSandbox:
    """A pod with its address; empty when it has none."""

    spec: SandboxSpec
    address: str


def hosts_text(own: PodSandbox, pods: Iterable[PodSandbox]) -> str:
    """Returns a pod's hosts file: the one of its spec, then every pod with an address by each of its names."""
    text = own.spec.hosts.replace("{address}", own.address or _LOOPBACK)
    if own.spec.host_network:
        return text
    lines: list[str] = []
    services: dict[str, list[str]] = defaultdict(list)
    for pod in sorted(pods, key=lambda each: each.spec.uid):
        if not pod.address:
            continue
        for name in pod.spec.names:
            lines.append(f"{pod.address}\t{' '.join(_name_forms(name, own.spec.namespace))}\n")
            services[name.partition(".")[2]].append(pod.address)
    for service, addresses in services.items():
        forms = " ".join(_name_forms(service, own.spec.namespace))
        lines += [f"{address}\t{forms}\n" for address in dict.fromkeys(addresses)]
    return text + HEADING + "".join(lines) if lines else text


def _name_forms(name: str, namespace: str) -> Iterator[str]:
    """Yields a fully qualified name and its short forms, as seen from a namespace."""
    yield name
    labels = name.split(".")
    position = labels.index("svc") if "svc" in labels else 0
    if position:
        yield ".".join(labels[: position + 1])
        yield ".".join(labels[:position])
        if labels[position - 1] == namespace:
            yield ".".join(labels[: position - 1])


def resolv_text(wanted: str, unserved_addresses: Iterable[str]) -> str:
    """Returns a resolv.conf without unserved name servers; empty when none is left: the engine's own is used."""
    unserved = {f"nameserver {address}" for address in unserved_addresses}
    lines = [line for line in wanted.splitlines() if line.strip() not in unserved]
    return "\n".join(lines) + "\n" if any(line.startswith("nameserver") for line in lines) else ""


def write_in_place(path: Path, text: str) -> None:
    """Overwrites a file that containers have mounted; they would not see a file that replaces it."""
    content = text.encode()
    with contextlib.suppress(FileNotFoundError):
        if path.read_bytes() == content:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.pwrite(descriptor, content, 0)
        os.ftruncate(descriptor, len(content))
        os.fchmod(descriptor, 0o644)
    finally:
        os.close(descriptor)
