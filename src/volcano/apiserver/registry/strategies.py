"""Strategies of the built-in kinds: decoding, defaults, preparation and validation, assembled from tables."""

from functools import cache

from volcano.apiserver.interfaces import Served
from volcano.apiserver.registry import defaulting, prepare
from volcano.apiserver.schema.decoding import drop_nulls
from volcano.apiserver.schema.validation import rules
from volcano.apiserver.schema.validation.metadata import (
    metadata_causes,
    metadata_update_causes,
    name_check_for,
)
from volcano.apiserver.schema.well_formed import well_formed
from volcano.apiserver.storage.content_cache import ContentCache, IdentityCache
from volcano.base.clock import Instant
from volcano.kube.api import type_info
from volcano.kube.api.errors import BadRequest, Cause
from volcano.kube.api.kinds import (
    BUILT_IN,
    EVENT,
    EVENTS_EVENT,
    HORIZONTAL_POD_AUTOSCALER,
    HORIZONTAL_POD_AUTOSCALER_V1,
    POD,
    Kind,
)
from volcano.kube.api.manifest import Manifest

# Kinds that are stored as another kind.
STORED_AS = {EVENTS_EVENT: EVENT, HORIZONTAL_POD_AUTOSCALER_V1: HORIZONTAL_POD_AUTOSCALER}
# Kinds whose defaults are all in their spec. Most writes of pods change the status only.
_DEFAULTED_IN_SPEC = frozenset({POD})


class BuiltInStrategy:
    """The strategy of one built-in kind."""

    __slots__ = (
        "_check", "_check_create", "_check_spec", "_check_update", "_completed", "_default", "_fine", "_fine_specs",
        "_name_check", "_structs", "_type", "_valid", "_valid_specs", "kind",
    )  # fmt: skip

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._type = _type_of(kind)
        self._structs = tuple(name for name in ("spec", "status") if _is_struct(self._type, name))
        self._fine = well_formed(self._type.name)
        self._default = defaulting.default_for(kind)
        self._check = rules.ALWAYS.get(kind)
        self._check_spec = rules.OF_SPEC.get(kind)
        self._fine_specs: ContentCache[None] = ContentCache()  # as submitted
        self._completed: ContentCache[Manifest] = (
            ContentCache()
        )  # by the spec as submitted; the value has its defaults
        self._valid_specs: ContentCache[None] = ContentCache()  # as stored: complete and valid
        self._valid: IdentityCache[bool] = IdentityCache()  # the same, for specs that pods share
        self._check_create = rules.ON_CREATE.get(kind)
        self._check_update = rules.ON_UPDATE.get(kind)
        self._name_check = name_check_for(kind)

    def try_reuse_spec(self, manifest: Manifest) -> bool:
        spec = manifest.get("spec")
        if self.kind not in _DEFAULTED_IN_SPEC or spec.__class__ is not dict:
            return False
        rest = manifest.copy()
        del rest["spec"]
        if not self._fine(rest):
            return False
        key = self._completed.key(spec)
        known = self._completed.get(key)
        if known is None:
            if not key or not self._fine({"spec": spec}):
                return False
            self.default(manifest)
            self._completed.put(key, manifest["spec"])
        else:
            manifest["spec"] = known
        return True

    def unknown_fields(self, manifest: Manifest) -> list[str]:
        return [] if self._is_fine(manifest) else type_info.inspect(self._type, manifest).unknown

    def _is_fine(self, manifest: Manifest) -> bool:
        """Whether an object is well-formed; the result for its spec is cached."""
        if self._check_spec is None or "spec" not in manifest:
            return self._fine(manifest)
        key = self._fine_specs.key(manifest["spec"])
        if key in self._fine_specs:
            return self._fine({name: value for name, value in manifest.items() if name != "spec"})
        fine = self._fine(manifest)
        if fine:
            self._fine_specs.put(key, None)
        return fine

    def prune(self, manifest: Manifest, old: Manifest | None = None) -> None:
        """Removes unknown fields; raises BadRequest for a value of the wrong type, as decoding would."""
        changed = (
            manifest if old is None else {k: v for k, v in manifest.items() if k not in old or v != old[k]}
        )
        if self._is_fine(changed):
            return
        found = type_info.inspect(self._type, manifest)
        if found.wrong:
            raise BadRequest(
                f'{self.kind.kind} in version "{self.kind.version}" cannot be handled as a {self.kind.kind}: '
                f"{found.wrong[0]}"
            )
        if found.unknown:
            type_info.prune(self._type, manifest)
        drop_nulls(self._type, manifest)

    def default(self, manifest: Manifest, old: Manifest | None = None) -> None:
        for name in self._structs:
            if name not in manifest:
                manifest[name] = {}  # as Go, which has no absent structs
        if self._default is None:
            return
        if self.kind in _DEFAULTED_IN_SPEC:
            spec = manifest.get("spec")
            if self._valid.get(spec):
                return
            if (old is not None and spec == old["spec"]) or self._valid_specs.key(spec) in self._valid_specs:
                return  # complete: equal to a stored or validated one
        self._default(manifest)

    def prepare_for_create(self, manifest: Manifest, now: Instant) -> None:
        prepare.prepare_for_create(self.kind, manifest, now)

    def prepare_for_update(self, new: Manifest, old: Manifest, subresource: str, now: Instant) -> None:
        prepare.prepare_for_update(self.kind, new, old, subresource, now)

    def validate(self, new: Manifest, old: Manifest | None, subresource: str) -> list[Cause]:
        if old is None:
            causes = metadata_causes(new, self.kind, self._name_check)
        else:
            causes = metadata_update_causes(new, old)
        if self._check is not None and subresource != "status":
            causes.extend(self._check(new))
        if self._check_spec is not None and subresource != "status":
            causes.extend(self._spec_causes(new.get("spec") or {}, is_new=old is None))
        if old is None:
            if self._check_create is not None:
                causes.extend(self._check_create(new))
        elif self._check_update is not None:
            causes.extend(self._check_update(new, old, subresource))
        return causes

    def _spec_causes(self, spec: Manifest, *, is_new: bool) -> list[Cause]:
        """Field errors of a spec. Specs of new objects are often equal, so that results are cached; changed
        ones are not."""
        assert self._check_spec is not None
        if not is_new:
            return list(self._check_spec(spec, "spec"))
        if self._valid.get(spec):
            return []
        key = self._valid_specs.key(spec)
        causes = [] if key in self._valid_specs else list(self._check_spec(spec, "spec"))
        if not causes:
            self._valid_specs.put(key, None)
            self._valid.put(spec, True)  # read-only from here on
        return causes


def built_in_kinds() -> list[Served]:
    """Every built-in kind as it is served."""
    return [Served(kind, STORED_AS.get(kind, kind), strategy_for(kind)) for kind in BUILT_IN]


@cache
def strategy_for(kind: Kind) -> BuiltInStrategy:
    """The strategy of a built-in kind."""
    return BuiltInStrategy(kind)


def _is_struct(type_: type_info.Type, name: str) -> bool:
    """Whether a field is a struct and not a pointer to one: in Go, it is never absent."""
    about = type_.fields.get(name)
    return about is not None and about.is_object and not about.container and not about.pointer


def _type_of(kind: Kind) -> type_info.Type:
    found = type_info.type_of(kind)
    if found is None:
        raise LookupError(f"{kind} is not a built-in kind: its strategy comes with its CRD")
    return found
