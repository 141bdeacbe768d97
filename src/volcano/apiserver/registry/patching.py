"""JSON, merge and strategic merge patches, applied to an object as it is served."""

from typing import Any

from volcano.apiserver.interfaces import Served
from volcano.apiserver.limits import check_depth
from volcano.kube.api import type_info
from volcano.kube.api.errors import BadRequest, Invalid, TooLarge, UnsupportedMediaType
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Options, PatchType
from volcano.kube.patches.patch import PatchError, json_patch, merge_patch
from volcano.kube.patches.strategic import strategic_merge

MAX_OPERATIONS = 10_000
_UNSUPPORTED = (
    "the body of the request was in an unknown format - accepted media types include: "
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
)


def check(served: Served, patch_type: PatchType, options: Options, patch: Any) -> None:
    """Raises when this type of patch, or this patch, does not apply to the kind."""
    if patch_type is PatchType.STRATEGIC and type_info.type_of(served.kind) is None:
        raise UnsupportedMediaType(_UNSUPPORTED)
    if patch_type is PatchType.JSON:
        if not isinstance(patch, list):
            raise BadRequest("a JSON patch is a list of operations")
        if len(patch) > MAX_OPERATIONS:
            raise TooLarge(
                "Request entity too large: The allowed maximum operations in a JSON patch is "
                f"{MAX_OPERATIONS}, got {len(patch)}"
            )
    elif not isinstance(patch, dict):
        raise BadRequest(f"a {patch_type} body must be an object")
    if patch_type is PatchType.APPLY and not options.field_manager:
        raise BadRequest(
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
        )
    if patch_type is not PatchType.APPLY and options.force:
        raise BadRequest(
            'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch'
        )


def apply(served: Served, old: Manifest, patch: Any, patch_type: PatchType) -> Manifest:
    """The object after a JSON, merge or strategic merge patch."""
    if patch_type is PatchType.STRATEGIC:
        type_ = type_info.type_of(served.kind)
        assert type_ is not None, "checked before"
        try:
            return strategic_merge(type_, old, patch)
        except ValueError as error:
            raise BadRequest(str(error)) from None
    return apply_plain(old, patch, patch_type)


def apply_plain(old: Manifest, patch: Any, patch_type: PatchType) -> Manifest:
    """The object after a JSON or merge patch, which do not depend on its kind."""
    try:
        new = json_patch(old, patch) if patch_type is PatchType.JSON else merge_patch(old, patch)
    except PatchError as error:
        raise Invalid(f"the server rejected our request due to an error in our request: {error}") from None
    if not isinstance(new, dict):
        raise BadRequest("the patch leaves no object")
    if patch_type is PatchType.JSON:
        check_depth(new)  # a merge patch is as deep as the deeper of the two
    return new
