"""Access control of one server: its tokens, its authenticator and its authorizer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from volcano.apiserver.authn.identity import ADMIN, Authenticator
from volcano.apiserver.authn.token_requests import request_token
from volcano.apiserver.authn.tokens import SigningKey, Tokens
from volcano.apiserver.authz.actions import Action
from volcano.apiserver.authz.bootstrap_roles import node_rules
from volcano.apiserver.authz.nodes import NodeAuthorizer, PodsOnNode
from volcano.apiserver.authz.rbac import Authorizer
from volcano.apiserver.interfaces import Attributes, Lookup, User
from volcano.base.clock import Clock
from volcano.kube.api.manifest import Key, Manifest


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """Credentials that a server accepts and issues."""

    admin_token: str
    signing_key: bytes  # PEM, see `tokens.new_signing_key`
    new_id: Callable[[], str]
    authority: bytes = b""  # the CA's certificate, PEM, for token Secrets
    known_tokens: Mapping[str, User] = field(default_factory=dict)


class AccessControl:
    """Authenticates and authorizes requests, and issues ServiceAccount tokens."""

    def __init__(
        self, lookup: Lookup, clock: Clock, options: AccessOptions, pods_on_node: PodsOnNode
    ) -> None:
        self._lookup = lookup
        self._clock = clock
        self.authority = options.authority
        self.tokens = Tokens(SigningKey(options.signing_key), options.new_id)
        self.authorizer = Authorizer(lookup, NodeAuthorizer(lookup, pods_on_node, node_rules()))
        known_tokens = {**options.known_tokens, options.admin_token: ADMIN}
        self.authenticator = Authenticator(self.tokens, lookup, clock, known_tokens)

    def authorize(self, request: Attributes) -> None:
        """Raises Forbidden unless the user of a request may do what its verb says."""
        kind, key = request.kind, request.key
        action = Action(request.verb, kind.group, kind.plural, request.subresource, key.name, key.namespace)
        self.authorizer.check(request.user, action)

    def issue_token(self, account: Key, request: Manifest) -> Manifest:
        """Answers a TokenRequest for a ServiceAccount."""
        return request_token(self.tokens, self._lookup, account, request, self._clock.now().wall)
