"""Authentication of requests: bearer tokens, client certificates and impersonation."""

import hmac
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from volcano.apiserver.authn.bootstrap_tokens import bootstrap_user, is_bootstrap_token
from volcano.apiserver.authn.tokens import BadToken, Identified, Tokens, service_account_user
from volcano.apiserver.authz.actions import Action
from volcano.apiserver.authz.rbac import Authorizer
from volcano.apiserver.interfaces import Lookup, User
from volcano.base.clock import Clock
from volcano.base.http.messages import Request
from volcano.kube.api.errors import BadRequest, Unauthorized
from volcano.kube.api.manifest import Manifest

AUTHENTICATED = "system:authenticated"
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
# Paths that need no credentials, such as health checks of load balancers.
PUBLIC_PATHS = ("/healthz", "/livez", "/readyz", "/version")
ADMIN = User("kubernetes-admin", ("system:masters", AUTHENTICATED))


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Authenticates requests by a known token, a ServiceAccount token or a client certificate."""

    tokens: Tokens
    lookup: Lookup
    clock: Clock
    known_tokens: Mapping[str, User] = field(default_factory=dict)

    def authenticate(self, request: Request) -> User:
        """The user of a request; raises `Unauthorized` for bad or missing credentials."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token:
            return self._by_token(token.strip())
        if scheme:
            raise Unauthorized("Unauthorized")
        if request.peer.common_name:
            return User(request.peer.common_name, (*request.peer.organizations, AUTHENTICATED))
        if is_public(request.path):
            return ANONYMOUS
        raise Unauthorized("Unauthorized")

    def identify(self, token: str, audiences: tuple[str, ...] = ()) -> Identified:
        """The user and audiences of any kind of token; raises `BadToken`."""
        user = self._known(token)
        if user is not None:
            ours = self.tokens.audiences
            meant_for = tuple(name for name in audiences or ours if name in ours)
            if not meant_for:
                raise BadToken(f"the token is meant for {list(ours)}")
            return Identified(user, meant_for)
        if is_bootstrap_token(token):
            user = bootstrap_user(token, self.lookup, self.clock.now().wall)
            return Identified(replace(user, groups=(*user.groups, AUTHENTICATED)), self.tokens.audiences)
        return self.tokens.identify(token, self.clock.now().wall, self.lookup, audiences)

    def _by_token(self, token: str) -> User:
        known = self._known(token)
        if known is not None:
            return known
        try:
            return self.identify(token).user
        except BadToken:
            raise Unauthorized("Unauthorized") from None

    def _known(self, token: str) -> User | None:
        """Compares with every known token, so that timing reveals nothing about them."""
        found, given = None, token.encode()
        for known, user in self.known_tokens.items():
            if hmac.compare_digest(known.encode(), given):
                found = user
        return found


def user_info(user: User) -> Manifest:
    """A user as `authentication.k8s.io` writes one."""
    info: Manifest = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    if user.extra:
        info["extra"] = {name: list(values) for name, values in user.extra.items()}
    return info


def is_public(path: str) -> bool:
    """Whether a path needs no credentials."""
    return path.rstrip("/") in PUBLIC_PATHS


def impersonated(request: Request, user: User, authorizer: Authorizer) -> User:
    """The user that `Impersonate-*` headers name, if the authenticated user may impersonate; else the
    authenticated user."""
    if "impersonate-" not in "\n".join(request.headers):  # evaluated for every request, without a loop
        return user
    wanted = _asked_for(request.headers)
    if wanted is None:
        return user
    for action in _actions(wanted, request.headers):
        authorizer.check(user, action)
    return _completed(wanted)


def _asked_for(headers: Mapping[str, str]) -> User | None:
    extra = {
        name.removeprefix("impersonate-extra-"): tuple(_values(value))
        for name, value in headers.items()
        if name.startswith("impersonate-extra-")
    }
    name = headers.get("impersonate-user", "")
    groups = tuple(_values(headers.get("impersonate-group", "")))
    if not name:
        if groups or extra or headers.get("impersonate-uid"):
            raise BadRequest("groups, a uid or extra can only be impersonated together with a user")
        return None
    return User(name, groups, headers.get("impersonate-uid", ""), extra)


def _values(header: str) -> Iterator[str]:
    """Repeated headers arrive joined by commas."""
    yield from (value.strip() for value in header.split(",") if value.strip())


def _actions(wanted: User, headers: Mapping[str, str]) -> Iterator[Action]:
    account = _service_account(wanted.name)
    if account:
        namespace, name = account
        yield Action("impersonate", resource="serviceaccounts", name=name, namespace=namespace)
    else:
        yield Action("impersonate", resource="users", name=wanted.name)
    for group in wanted.groups:
        yield Action("impersonate", resource="groups", name=group)
    if wanted.uid:
        yield Action("impersonate", "authentication.k8s.io", "uids", name=wanted.uid)
    for key, values in wanted.extra.items():
        for value in values:
            yield Action("impersonate", "authentication.k8s.io", "userextras", key, value)


def _service_account(name: str) -> tuple[str, str] | None:
    prefix, _, rest = name.partition("system:serviceaccount:")
    namespace, _, account = rest.partition(":")
    return (namespace, account) if not prefix and namespace and account else None


def _completed(wanted: User) -> User:
    """Adds the groups that every user of this sort is in."""
    account = _service_account(wanted.name)
    groups = list(wanted.groups)
    if account and not groups:
        groups = list(service_account_user(*account).groups)
    standard = "system:unauthenticated" if wanted.name == ANONYMOUS.name else AUTHENTICATED
    if standard not in groups:
        groups.append(standard)
    return replace(wanted, groups=tuple(groups))
