"""Contracts of the API server: between its packages, and with kubelets and components that answer requests."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from volcano.base.clock import Instant
from volcano.base.http.messages import Answer, Request
from volcano.kube.api.errors import Cause
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import DEFAULTS, Options


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request, as authenticated."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


# The user of the cluster's own components, in process.
SYSTEM = User("system:volcano", ("system:masters", "system:authenticated"))


@dataclass(frozen=True, slots=True)
class Attributes:
    """Attributes of a request, for admission and audit."""

    verb: str  # create, update, patch, delete, deletecollection, connect
    kind: Kind
    key: Key
    user: User = SYSTEM
    subresource: str = ""
    options: Options = DEFAULTS

    def about(self, key: Key) -> "Attributes":
        """The same attributes for another object."""
        return Attributes(self.verb, self.kind, key, self.user, self.subresource, self.options)

    @property
    def operation(self) -> str:
        """The admission operation: CREATE, UPDATE, DELETE or CONNECT."""
        return {"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "connect": "CONNECT"}.get(
            self.verb, "DELETE"
        )


class Lookup(Protocol):
    """Read access to stored objects, for admission. Returned objects may be shared and are read-only."""

    def find(self, kind: Kind, key: Key) -> Manifest | None: ...

    def all(self, kind: Kind, namespace: str = "") -> list[Manifest]: ...


# Admits one request: given its attributes, the new object (None on delete) and the old one (None on create), returns
# the object to store, changed or not, and None on delete. Raises an ApiError to reject the request. The spec of a new
# object may be shared with other objects: a plugin copies what it changes in it. An optimistic update that is retried
# passes admission again, so a plugin keeps no state unless it may count twice.
AdmissionFunction = Callable[
    [Attributes, Manifest | None, Manifest | None, Lookup], Awaitable[Manifest | None]
]


class AdmissionPlugin(Protocol):
    """One plugin of the admission chain."""

    def handles(self, kind: Kind) -> bool:
        """Whether the plugin may change or reject objects of a kind; evaluated once per kind."""
        ...

    def __call__(
        self, attributes: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup, /
    ) -> Awaitable[Manifest | None]: ...


class FunctionPlugin:
    """A function as an admission plugin for some kinds."""

    def __init__(self, function: AdmissionFunction, handles: Callable[[Kind], bool]) -> None:
        self._function = function
        self._handles = handles

    def handles(self, kind: Kind) -> bool:
        return self._handles(kind)

    def __call__(
        self, attributes: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup, /
    ) -> Awaitable[Manifest | None]:
        return self._function(attributes, new, old, lookup)


def admission_plugin(*kinds: Kind) -> Callable[[AdmissionFunction], FunctionPlugin]:
    """Makes a function an admission plugin for some kinds; for all when none is named."""
    handled = frozenset(kinds)
    return lambda function: FunctionPlugin(function, lambda kind: not handled or kind in handled)


class Strategy(Protocol):
    """Rules of one kind beyond storage. All methods are synchronous and change manifests in place."""

    def try_reuse_spec(self, manifest: Manifest) -> bool:
        """Replaces the spec of a new object by an equal, completed one if one is known; then the object needs
        no pruning and no defaults. The spec is shared with other objects and read-only."""
        ...

    def unknown_fields(self, manifest: Manifest) -> list[str]:
        """Messages for unknown fields, such as `unknown field "spec.foo"`, for strict decoding."""
        ...

    def prune(self, manifest: Manifest, old: Manifest | None = None) -> None:
        """Removes unknown fields. Parts that equal those of `old`, a stored object, are skipped."""
        ...

    def default(self, manifest: Manifest, old: Manifest | None = None) -> None:
        """Sets the defaults of the schema, before admission. Parts that equal those of `old` are complete
        already."""
        ...

    def prepare_for_create(self, manifest: Manifest, now: Instant) -> None:
        """Resets fields that a client may not set, such as status, and sets those of the server. Runs before
        admission."""
        ...

    def prepare_for_update(self, new: Manifest, old: Manifest, subresource: str, now: Instant) -> None:
        """Carries over from `old` the fields that this (sub)resource may not change: `status` on a plain
        update, all but status on a status update; increments metadata.generation when the spec changed."""
        ...

    def validate(self, new: Manifest, old: Manifest | None, subresource: str) -> list[Cause]:
        """Field errors of the object to be stored, with path, reason and the text of kube-apiserver."""
        ...


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table that kubectl prints."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    json_path: str = ""  # for CRDs; built-in kinds are rendered by code


@dataclass(frozen=True, slots=True)
class Served:
    """One kind in one version, as it is served."""

    kind: Kind
    storage: Kind  # the version objects are stored under; the same for built-in kinds
    strategy: Strategy
    columns: tuple[Column, ...] = ()  # empty for built-in kinds
    schema: Mapping[str, Any] = field(default_factory=dict)  # OpenAPI v3 schema of a CRD's version
    crd: str = ""  # the name of the CRD that defines it
    selectable_fields: tuple[str, ...] = ()  # JSON paths that field selectors may use beside metadata
    conversion: Mapping[str, Any] | None = (
        None  # the `spec.conversion` of a CRD whose versions a webhook converts
    )


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Parsed PodLogOptions: the container and the part of its log to return."""

    container: str
    follow: bool = False
    previous: bool = False
    tail_lines: int | None = None
    since: float | None = None  # wall time
    timestamps: bool = False
    limit_bytes: int | None = None
    stream: str = ""  # stdout or stderr; empty is both


class LogSource(Protocol):
    """Source of container logs, implemented by the kubelet."""

    async def open_log(self, pod: Manifest, options: LogOptions) -> AsyncIterator[bytes]:
        """Streams a log; raises an `ApiError` if there is none, for example before the container starts."""
        ...


class StreamSource(Protocol):
    """Target of exec, attach and portforward requests, implemented by the kubelet."""

    async def connect(self, subresource: str, pod: Manifest, request: Request) -> Answer:
        """Handles an exec, attach or portforward request; raises an `ApiError` to reject it."""
        ...


class Extension(Protocol):
    """One version of a group that another component of the program answers, as an aggregated API server does on a
    cluster. Requests are authenticated and authorized before."""

    @property
    def group(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def kinds(self) -> Sequence[Kind]:
        """What discovery lists, as that of an APIService."""
        ...

    async def handle(self, request: Request) -> Answer:
        """Answers a request for one of the resources. Raises an ApiError."""
        ...
