"""Node failures: at random with given mean times, from a file, or of a whole rack at one moment."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from volcano.kube.api import duration
from volcano.simulate.workload import SimNode, TraceError

DEFAULT_REPAIR = 3600.0


@dataclass(frozen=True, slots=True)
class NodeFault:
    """A node that fails at a moment and is ready again after some seconds."""

    at: float
    node: str
    seconds: float


def parse_faults(text: str, nodes: Sequence[SimNode], end: float, seed: int) -> list[NodeFault]:
    """`mtbf=30d,mttr=2h` for random failures until `end`, or a CSV file with columns time, node, duration."""
    if "=" in text and not Path(text).exists():
        return _random_faults(text, nodes, end, seed)
    return _read_faults(Path(text), nodes)


def _random_faults(text: str, nodes: Sequence[SimNode], end: float, seed: int) -> list[NodeFault]:
    values = {"mttr": DEFAULT_REPAIR}
    for part in text.split(","):
        name, _, given = part.strip().partition("=")
        if name not in ("mtbf", "mttr"):
            raise TraceError("--faults", f"{part!r} is not known; write mtbf=30d,mttr=2h or a CSV file")
        values[name] = seconds_of(given, f"--faults {name}")
    if values.get("mtbf", 0.0) <= 0:
        raise TraceError("--faults", "mtbf, the mean time between failures of one node, is missing or 0")
    random = Random(seed)
    faults = []
    for node in nodes:
        at = random.expovariate(1 / values["mtbf"])
        while at < end:
            repair = random.expovariate(1 / max(values["mttr"], 1.0))
            faults.append(NodeFault(at, node.name, repair))
            at += repair + random.expovariate(1 / values["mtbf"])
    return sorted(faults, key=lambda fault: (fault.at, fault.node))


def _read_faults(path: Path, nodes: Sequence[SimNode]) -> list[NodeFault]:
    known = {node.name for node in nodes}
    faults = []
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            for row in reader:
                try:
                    at, length = seconds_of(row["time"], "time"), seconds_of(row["duration"], "duration")
                    node = row["node"]
                except KeyError as missing:
                    raise TraceError(
                        path, f"column {missing} is missing; give time, node, duration", 1
                    ) from None
                if node not in known:
                    raise TraceError(path, f"there is no node {node!r}", reader.line_num)
                faults.append(NodeFault(at, node, length))
    except OSError as error:
        raise TraceError(path, str(error.strerror)) from None
    return sorted(faults, key=lambda fault: (fault.at, fault.node))


def rack_faults(text: str, nodes: Sequence[SimNode]) -> list[NodeFault]:
    """`rack-3@2h` or `rack-3@2h+30m`: all nodes with a label of this value fail at that moment."""
    rack, separator, when = text.partition("@")
    if not separator or not rack:
        raise TraceError("--kill-rack", f"{text!r} should be RACK@TIME, such as rack-3@2h or rack-3@2h+30m")
    moment, _, length = when.partition("+")
    at = seconds_of(moment, "--kill-rack")
    seconds = seconds_of(length, "--kill-rack") if length else DEFAULT_REPAIR
    found = [node.name for node in nodes if rack in node.labels.values()]
    if not found:
        racks = sorted({node.labels["rack"] for node in nodes if "rack" in node.labels})
        known = f"; racks are {', '.join(racks[:10])}" if racks else "; no node has a label `rack`"
        raise TraceError("--kill-rack", f"no node has a label with the value {rack!r}{known}")
    return [NodeFault(at, name, seconds) for name in found]


def seconds_of(text: str, what: str) -> float:
    """Seconds of `90`, `2h` or `30d`."""
    try:
        if text.endswith("d"):
            return float(text[:-1]) * 86400
        return float(text) if text.replace(".", "", 1).isdigit() else duration.parse(text)
    except ValueError:
        raise TraceError(what, f"{text!r} is not a time; write 90s, 2h or 30d") from None
