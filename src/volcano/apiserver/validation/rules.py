"""Which checks apply to which built-in kind: on every write of its spec, and on changes."""

from collections.abc import Callable, Iterable, Mapping

from volcano.kube.errors import Cause
from volcano.kube.kinds import Kind
from volcano.kube.manifest import Manifest

Check = Callable[[Manifest], Iterable[Cause]]
# Takes the new object, the old one and the subresource.
CheckUpdate = Callable[[Manifest, Manifest, str], Iterable[Cause]]

CREATE: Mapping[Kind, Check] = {}
UPDATE: Mapping[Kind, CheckUpdate] = {}
