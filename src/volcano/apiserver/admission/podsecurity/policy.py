"""Policies of Pod Security: levels and versions for enforce, audit and warn, from labels and configuration."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from volcano.apiserver.admission.podsecurity.checks import (
    BASELINE,
    NEWEST,
    RESTRICTED,
    CheckFunction,
    Violation,
    checks_of,
)
from volcano.apiserver.schema.validation import field
from volcano.base.yaml_loader import FILES, YamlError, load_yaml
from volcano.kube.api.errors import Cause

PREFIX = "pod-security.kubernetes.io/"
PRIVILEGED = "privileged"
LEVELS = (PRIVILEGED, BASELINE, RESTRICTED)  # from the least to the most strict
LATEST = "latest"
MODES = ("enforce", "audit", "warn")
CONFIGURATION = ("PodSecurityConfiguration", "pod-security.admission.config.k8s.io/")
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]{0,5})")


class ConfigurationError(ValueError):
    """A PodSecurityConfiguration that cannot be used."""


class LevelVersion(NamedTuple):
    """A level in the version of a Kubernetes release."""

    level: str = PRIVILEGED
    version: str = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"

    def violations(self, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> list[Violation]:
        """Everything in a pod that this level does not allow."""
        if self.level == PRIVILEGED:
            return []
        return [found for check in _checks(self) if (found := check(metadata, spec)) is not None]


@lru_cache(maxsize=256)
def _checks(policy: LevelVersion) -> tuple[CheckFunction, ...]:
    minor = NEWEST if policy.version == LATEST else int(policy.version.removeprefix("v1."))
    return tuple(checks_of(policy.level, min(minor, NEWEST)))


class Policy(NamedTuple):
    """What is rejected, what is recorded in the audit log, and what the user is warned of."""

    enforce: LevelVersion = LevelVersion()
    audit: LevelVersion = LevelVersion()
    warn: LevelVersion = LevelVersion()

    @property
    def allows_everything(self) -> bool:
        return all(mode.level == PRIVILEGED for mode in self)


EVERYTHING_ALLOWED = Policy()


@dataclass(frozen=True, slots=True)
class PodSecurityConfiguration:
    """The policy of namespaces without labels, and what is exempt from all policies."""

    defaults: Policy = EVERYTHING_ALLOWED
    usernames: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


def policy_of(labels: Mapping[str, str], defaults: Policy) -> tuple[Policy, list[Cause]]:
    """The policy that the labels of a namespace ask for, and the errors in them. An unknown level counts as restricted
    when it is enforced, and as privileged otherwise."""
    relevant = tuple(sorted((key, value) for key, value in labels.items() if key.startswith(PREFIX)))
    return _policy_of(relevant, defaults) if relevant else (defaults, [])


@lru_cache(maxsize=1024)
def _policy_of(labels: tuple[tuple[str, str], ...], defaults: Policy) -> tuple[Policy, list[Cause]]:
    given, causes = dict(labels), []
    modes: dict[str, LevelVersion] = {}
    for mode, default in zip(MODES, defaults, strict=True):
        level = given.get(f"{PREFIX}{mode}", default.level)
        if level not in LEVELS:
            causes.append(_invalid(mode, level, f"must be one of {', '.join(LEVELS)}"))
            level = RESTRICTED if mode == "enforce" else PRIVILEGED
        version = given.get(f"{PREFIX}{mode}-version", default.version)
        if version != LATEST and not _VERSION.fullmatch(version):
            causes.append(_invalid(f"{mode}-version", version, 'must be "latest" or "v1.x"'))
            version = LATEST
        modes[mode] = LevelVersion(level, version)
    enforce, warn = modes["enforce"], modes["warn"]
    is_explicit = given.get(f"{PREFIX}enforce") in LEVELS and f"{PREFIX}warn" not in given
    if is_explicit and LEVELS.index(enforce.level) > LEVELS.index(warn.level):
        # A level that is enforced on pods also gives warnings about workloads.
        has_version = f"{PREFIX}warn-version" in given
        modes["warn"] = LevelVersion(enforce.level, warn.version if has_version else enforce.version)
    return Policy(**modes), causes


def _invalid(label: str, value: str, detail: str) -> Cause:
    return field.invalid(f"metadata.labels[{PREFIX}{label}]", value, detail)


def default_configuration(level: str, exempt_namespaces: Iterable[str] = ()) -> PodSecurityConfiguration:
    """A configuration that enforces a level, and warns about it, in all namespaces that are not exempt."""
    mode = LevelVersion(level)
    return PodSecurityConfiguration(
        Policy(mode, LevelVersion(), mode), namespaces=frozenset(exempt_namespaces)
    )


def read_configuration(text: str) -> PodSecurityConfiguration:
    """A PodSecurityConfiguration in YAML, as kube-apiserver reads it. Raises ConfigurationError."""
    try:
        loaded = load_yaml(text, FILES).value
    except YamlError as error:
        raise ConfigurationError(f"is not YAML: {error}") from None
    kind, group = CONFIGURATION
    if not isinstance(loaded, dict) or loaded.get("kind") != kind:
        raise ConfigurationError(f"must be a {kind} in {group}v1")
    if not str(loaded.get("apiVersion")).startswith(group):
        raise ConfigurationError(f"apiVersion {loaded.get('apiVersion')!r} must be {group}v1")
    given = _mapping(loaded.get("defaults"), "defaults")
    unknown = set(given) - {*MODES, *(f"{mode}-version" for mode in MODES)}
    if unknown:
        raise ConfigurationError(f"defaults.{min(unknown)} is unknown; modes are {', '.join(MODES)}")
    labels = {f"{PREFIX}{name}": str(value) for name, value in given.items()}
    policy, causes = policy_of({f"{PREFIX}warn": PRIVILEGED, **labels}, EVERYTHING_ALLOWED)
    if causes:
        name = str(causes[0].field).removeprefix(f"metadata.labels[{PREFIX}").removesuffix("]")
        raise ConfigurationError(f"defaults.{name}: {causes[0].message}")
    exemptions = _mapping(loaded.get("exemptions"), "exemptions")
    return replace(
        PodSecurityConfiguration(policy),
        usernames=_names(exemptions, "usernames"),
        namespaces=_names(exemptions, "namespaces"),
        runtime_classes=_names(exemptions, "runtimeClasses"),
    )


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise ConfigurationError(f"{name} must be an object")
    return value or {}


def _names(exemptions: Mapping[str, Any], name: str) -> frozenset[str]:
    names = exemptions.get(name) or []
    if not isinstance(names, list) or not all(isinstance(each, str) and each for each in names):
        raise ConfigurationError(f"exemptions.{name} must be a list of names")
    return frozenset(names)
