"""Calls registered admission webhooks: mutating ones in order, validating ones in parallel."""

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from volcano.apiserver.admission.webhook_calls import Caller, CallFailed
from volcano.apiserver.admission.webhook_rules import (
    ConditionFailed,
    Denied,
    Hook,
    conditions_hold,
    hooks_of,
    matches,
    review_of,
)
from volcano.apiserver.interfaces import Attributes, Lookup
from volcano.apiserver.storage.history import Change
from volcano.apiserver.warnings import warn
from volcano.base.http.dialer import Dial
from volcano.base.log import Log
from volcano.kube.api.errors import BadRequest, Forbidden, InternalError
from volcano.kube.api.kinds import MUTATING_WEBHOOK, VALIDATING_WEBHOOK, Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.patches.patch import PatchError, json_patch

log = Log("webhooks")

_CONFIGURATIONS = frozenset((MUTATING_WEBHOOK.resource, VALIDATING_WEBHOOK.resource))


class Webhooks:
    """Admission by the webhooks registered in the store: `mutate` and `validate` are plugins of the chain."""

    def __init__(
        self, new_id: Callable[[], str], prune: Callable[[Kind, Manifest], None], dial: Dial
    ) -> None:
        """`prune` removes fields that the schema of a kind does not know, and rejects values of the wrong type."""
        self._caller = Caller(dial)
        self._prune = prune
        self._new_id = new_id
        self._hooks: dict[Kind, list[Hook]] = {}

    async def close(self) -> None:
        """Closes the connections to webhooks."""
        await self._caller.close()

    def on_change(self, collection: str, change: Change) -> None:
        """Observes the store: a changed configuration invalidates the cached webhooks."""
        if collection in _CONFIGURATIONS:
            self.forget()

    def forget(self) -> None:
        """Discards the cached webhooks; they are read again with the next request."""
        self._hooks.clear()

    def _registered(self, kind: Kind, lookup: Lookup) -> list[Hook]:
        known = self._hooks.get(kind)
        if known is None:
            known = self._hooks[kind] = hooks_of(lookup.all(kind))
        return known

    async def mutate(
        self, request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        """Calls every mutating webhook in order; reinvokes those with policy IfNeeded if later ones changed
        the object."""
        hooks = self._registered(MUTATING_WEBHOOK, lookup)
        if not hooks:
            return new
        seen: dict[int, bytes] = {}
        for position, hook in enumerate(hooks):
            new, called = await self._mutate_once(hook, request, new, old, lookup)
            if called and hook.reinvoked:
                seen[position] = _frozen(new)
        for position, state in seen.items():
            if _frozen(new) != state:
                new, _ = await self._mutate_once(hooks[position], request, new, old, lookup)
        if new is not None and not _is_other_kind(request, new):
            self._prune(request.kind, new)  # a webhook may have added unknown fields
        return new

    async def _mutate_once(
        self, hook: Hook, request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> tuple[Manifest | None, bool]:
        response = await self._call(hook, request, new, old, lookup)
        if response is None:
            return new, False
        if not response.get("patch"):
            return new, True
        if new is None:
            raise _internal(f'admission webhook "{hook.name}" attempted to modify the object of a deletion')
        try:
            changed = _patched(response, new)
        except CallFailed as error:
            self._on_call_failure(hook, error)
            return new, True
        return changed, True

    async def validate(
        self, request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Manifest | None:
        """Calls every validating webhook in parallel; raises the first denial in order."""
        hooks = self._registered(VALIDATING_WEBHOOK, lookup)
        if not hooks:
            return new
        answers = await asyncio.gather(
            *(self._call(hook, request, new, old, lookup) for hook in hooks), return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return new

    async def _call(
        self, hook: Hook, request: Attributes, new: Manifest | None, old: Manifest | None, lookup: Lookup
    ) -> Mapping[str, Any] | None:
        """The response of a webhook, or None when it does not match or its failure is ignored. Raises
        `Denied`."""
        if not matches(hook, request, new, old, lookup):
            return None
        review = review_of(request, new, old, self._new_id())
        try:
            if not conditions_hold(hook, review, new, old):
                return None
        except ConditionFailed as error:
            self._on_condition_failure(hook, request, str(error))
            return None
        if request.options.dry_run and not hook.allows_dry_run:
            raise BadRequest(f'admission webhook "{hook.name}" does not support dry run')
        try:
            response = await self._caller.call(hook, review, lookup)
        except CallFailed as error:
            self._on_call_failure(hook, error)
            return None
        for text in response.get("warnings") or ():
            warn(str(text))
        if not response.get("allowed"):
            raise Denied(hook, response.get("status") or {})
        return response

    def _on_condition_failure(self, hook: Hook, request: Attributes, reason: str) -> None:
        if not hook.ignores_failures:
            raise Forbidden(
                f'{request.kind.resource} "{request.key.name}" is forbidden: {reason}',
                name=request.key.name,
                group=request.kind.group,
                kind=request.kind.plural,
            )

    def _on_call_failure(self, hook: Hook, error: CallFailed) -> None:
        if not hook.ignores_failures:
            raise _internal(f'failed calling webhook "{hook.name}": {error}') from error
        log.warning("webhook call failed, ignored", webhook=hook.name, error=error)


def _is_other_kind(request: Attributes, new: Manifest) -> bool:
    """Whether the object of a request is the body of a subresource, such as a Binding or a TokenRequest."""
    return bool(request.subresource) and new.get("kind") not in (None, request.kind.kind)


def _internal(message: str) -> InternalError:
    return InternalError(f"Internal error occurred: {message}")


def _frozen(manifest: Manifest | None) -> bytes:
    return orjson.dumps(manifest, option=orjson.OPT_SORT_KEYS)


def _patched(response: Mapping[str, Any], new: Manifest) -> Manifest:
    if response.get("patchType") != "JSONPatch":
        raise CallFailed(f"webhook returned invalid response.patchType of {response.get('patchType')!r}")
    try:
        operations = orjson.loads(base64.b64decode(str(response["patch"]), validate=True))
        changed = json_patch(new, operations)
    except (binascii.Error, orjson.JSONDecodeError, PatchError, TypeError) as error:
        raise CallFailed(f"received undecodable patch in webhook response: {error}") from error
    if not isinstance(changed, dict) or not isinstance(changed.get("metadata"), dict):
        raise CallFailed("the patch in the webhook response leaves no object")
    return changed
