"""Validation of the arguments of job plugins."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from volcano.kube.api.manifest import Manifest
from volcano.webhooks.review import Violation

# Numeric and boolean flags by plugin. Other flags are names and paths of any form.
NUMBERS: Mapping[str, tuple[str, ...]] = {
    "mpi": ("port",),
    "pytorch": ("port", "wait-master-timeout"),
    "ray": ("port", "dashboardPort", "clientPort"),
    "ssh": ("ssh-port",),
    "tensorflow": ("port",),
}
# Numbers that become ports of containers and Services. An ssh port out of range stands for 22, as in Volcano.
PORTS: Mapping[str, tuple[str, ...]] = {
    "mpi": ("port",),
    "pytorch": ("port",),
    "ray": ("port", "dashboardPort", "clientPort"),
    "tensorflow": ("port",),
}
SWITCHES: Mapping[str, tuple[str, ...]] = {
    "pytorch": ("wait-master-enabled",),
    "svc": ("publish-not-ready-addresses", "disable-network-policy", "inject-hosts-env"),
}
BOOLEAN = re.compile("1|t|T|true|TRUE|True|0|f|F|false|FALSE|False")
NUMBER = re.compile("-?[0-9]+")
LONGEST_NUMBER = 10  # digits of a 32-bit number


def check_plugins(
    spec: Mapping[str, Any], tasks: Sequence[Manifest], known: frozenset[str]
) -> Iterable[Violation]:
    """Plugins are known, their arguments parse, and mpi's master is one of the tasks."""
    plugins = spec.get("plugins") or {}
    for name, given in plugins.items():
        words = [str(argument) for argument in given or ()]
        if name not in known and "." not in name and ":" not in name:
            text = f"unable to find job plugin: {name}; choose from {', '.join(sorted(known))}"
            yield Violation(f"spec.plugins[{name}]", text)
        for flag in NUMBERS.get(name, ()):
            value = argument(words, flag)
            if value is not None and not _is_valid(name, flag, value):
                kind = "a whole number" if flag not in PORTS.get(name, ()) else "a port from 1 to 65535"
                text = f"argument --{flag} must be {kind} such as --{flag}=2222, not {value!r}"
                yield Violation(f"spec.plugins[{name}]", text)
        for flag in SWITCHES.get(name, ()):
            value = argument(words, flag, switch=True)
            if value is not None and not BOOLEAN.fullmatch(value):
                text = f"argument --{flag} must be true or false, not {value!r}"
                yield Violation(f"spec.plugins[{name}]", text)
    if "mpi" in plugins:
        yield from _check_mpi_master(plugins["mpi"] or (), tasks)


def _is_valid(plugin: str, flag: str, value: str) -> bool:
    if not NUMBER.fullmatch(value) or len(value) > LONGEST_NUMBER:
        return False
    if flag in PORTS.get(plugin, ()):
        return 0 < int(value) < 65536
    return int(value) >= 0 or plugin == "ssh"


def _check_mpi_master(arguments: Iterable[Any], tasks: Sequence[Manifest]) -> Iterable[Violation]:
    master = argument([str(word) for word in arguments], "master") or "master"
    if all(task.get("name") != master for task in tasks):
        names = ", ".join(str(task.get("name")) for task in tasks)
        text = f"The specified mpi master task was not found: {master!r} is not among the tasks {names}"
        yield Violation("spec.plugins[mpi]", text)


def argument(words: Sequence[str], name: str, *, switch: bool = False) -> str | None:
    """The value of an argument given as `--name=value`, `-name=value` or, except for switches, `--name
    value`."""
    for place, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag in (f"--{name}", f"-{name}"):
            if equals:
                return value
            return "true" if switch else next(iter(words[place + 1 :]), "")
    return None
