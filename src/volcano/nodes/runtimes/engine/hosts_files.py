"""Who is called what: the hosts files of pods that have no name server, from the pods that are known."""

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
    """A pod with the address it has; empty when it has none."""

    spec: SandboxSpec
    address: str


def hosts_text(own: PodSandbox, pods: Iterable[PodSandbox]) -> str:
    """A pod's hosts file: what its spec says, then every pod that has an address by each of its names."""
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
    """A fully qualified name and what may be written for it, seen from a namespace."""
    yield name
    labels = name.split(".")
    position = labels.index("svc") if "svc" in labels else 0
    if position:
        yield ".".join(labels[: position + 1])
        yield ".".join(labels[:position])
        if labels[position - 1] == namespace:
            yield ".".join(labels[: position - 1])


def resolv_text(wanted: str, unserved_addresses: Iterable[str]) -> str:
    """A resolv.conf without name servers that do not answer; empty when none is left: the engine's own is better."""
    unserved = {f"nameserver {address}" for address in unserved_addresses}
    lines = [line for line in wanted.splitlines() if line.strip() not in unserved]
    return "\n".join(lines) + "\n" if any(line.startswith("nameserver") for line in lines) else ""


def write_in_place(path: Path, text: str) -> None:
    """Writes over a file that containers have mounted: a new one in its place would not be theirs."""
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
