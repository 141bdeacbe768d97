"""Objects that a pod refers to: ConfigMaps, Secrets, claims and their volumes, Services and the service account."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from volcano.kube.api.errors import NotFound
from volcano.kube.api.kinds import (
    CONFIG_MAP,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Kind,
)
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.kube.client.protocol import Client, Query

API_SERVICE = Key("default", "kubernetes")


@dataclass(frozen=True, slots=True)
class References:
    """Objects by name; None if missing. Whether one is optional is decided where it is used."""

    config_maps: Mapping[str, Manifest | None] = field(default_factory=dict)
    secrets: Mapping[str, Manifest | None] = field(default_factory=dict)
    claims: Mapping[str, Manifest | None] = field(default_factory=dict)
    volumes: Mapping[str, Manifest | None] = field(default_factory=dict)  # PersistentVolumes of those claims
    services: Sequence[Manifest] = ()  # of the pod's namespace, and that of the API server
    account: Manifest | None = None


@dataclass(frozen=True, slots=True)
class ReferencedNames:
    """The names of the objects a pod refers to."""

    config_maps: frozenset[str]
    secrets: frozenset[str]
    claims: frozenset[str]


async def fetch_references(client: Client, pod: Manifest) -> References:
    """Fetches the objects a pod refers to. Raises an ApiError when a request fails."""
    namespace, names = key_of(pod).namespace, referenced_names(pod)
    links = pod["spec"].get("enableServiceLinks", True)
    maps, secrets, claims, services, account = await asyncio.gather(
        _fetch_all(client, CONFIG_MAP, namespace, names.config_maps),
        _fetch_all(client, SECRET, namespace, names.secrets),
        _fetch_all(client, PERSISTENT_VOLUME_CLAIM, namespace, names.claims),
        _services(client, namespace if links else ""),
        _get(client, SERVICE_ACCOUNT, Key(namespace, pod["spec"].get("serviceAccountName") or "default")),
    )
    volumes = frozenset(
        str(claim["spec"]["volumeName"])
        for claim in claims.values()
        if claim and claim["spec"].get("volumeName")
    )
    return References(
        maps, secrets, claims, await _fetch_all(client, PERSISTENT_VOLUME, "", volumes), services, account
    )


async def fetch_volume_sources(client: Client, pod: Manifest) -> References:
    """Fetches only the sources of volumes that are updated while the pod runs."""
    namespace = key_of(pod).namespace
    sources = list(_sources(pod))
    maps, secrets = await asyncio.gather(
        _fetch_all(client, CONFIG_MAP, namespace, frozenset(_named(sources, "configMap", "name"))),
        _fetch_all(client, SECRET, namespace, frozenset(_named(sources, "secret", "secretName", "name"))),
    )
    return References(maps, secrets)


def referenced_names(pod: Manifest) -> ReferencedNames:
    """The names of the ConfigMaps, Secrets and claims in a pod's volumes and variables."""
    sources, variables = list(_sources(pod)), list(_variables(pod))
    return ReferencedNames(
        config_maps=frozenset(
            (*_named(sources, "configMap", "name"), *_named(variables, "configMapKeyRef", "name"))
        )
        | frozenset(_named(variables, "configMapRef", "name")),
        secrets=frozenset(
            (*_named(sources, "secret", "secretName", "name"), *_named(variables, "secretKeyRef", "name"))
        )
        | frozenset(_named(variables, "secretRef", "name")),
        claims=frozenset(
            name for volume in pod["spec"].get("volumes") or () if (name := claim_name(pod, volume))
        ),
    )


def claim_name(pod: Manifest, volume: Manifest) -> str:
    """The claim of a volume, empty if it has none; that of an ephemeral volume is named after pod and volume."""
    if volume.get("ephemeral"):
        return f"{key_of(pod).name}-{volume['name']}"
    return str((volume.get("persistentVolumeClaim") or {}).get("claimName") or "")


def all_containers(pod: Manifest) -> Iterator[Manifest]:
    """Every container of a pod, init containers first."""
    for group in ("initContainers", "containers", "ephemeralContainers"):
        yield from pod["spec"].get(group) or ()


def _sources(pod: Manifest) -> Iterator[Manifest]:
    """Every volume source, including those of projected volumes."""
    for volume in pod["spec"].get("volumes") or ():
        yield volume
        yield from (volume.get("projected") or {}).get("sources") or ()


def _variables(pod: Manifest) -> Iterator[Manifest]:
    """Every source of environment variables: whole objects and single keys."""
    for container in all_containers(pod):
        yield from container.get("envFrom") or ()
        for variable in container.get("env") or ():
            if variable.get("valueFrom"):
                yield variable["valueFrom"]


def _named(sources: Iterable[Manifest], source: str, *fields: str) -> Iterator[str]:
    for each in sources:
        reference = each.get(source) or {}
        yield from (str(reference[name]) for name in fields if reference.get(name))


async def _fetch_all(
    client: Client, kind: Kind, namespace: str, names: frozenset[str]
) -> dict[str, Manifest | None]:
    ordered = sorted(names)
    found = await asyncio.gather(*(_get(client, kind, Key(namespace, name)) for name in ordered))
    return dict(zip(ordered, found, strict=True))


async def _get(client: Client, kind: Kind, key: Key) -> Manifest | None:
    try:
        return await client.get(kind, key)
    except NotFound:
        return None


async def _services(client: Client, namespace: str) -> list[Manifest]:
    api = await _get(client, SERVICE, API_SERVICE)
    own = (await client.list(SERVICE, Query(namespace=namespace))).items if namespace else []
    return [*([api] if api else []), *(service for service in own if key_of(service) != API_SERVICE)]
