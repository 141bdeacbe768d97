"""Objects of plugins: created if absent, updated, and deleted when the job has finished."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from volcano.controllers.job.objects import delete, is_left_over, is_ours
from volcano.controllers.job.plugins.plugin import Plugin, PluginError
from volcano.controllers.job.spec import Job
from volcano.kube.api.kinds import BUILT_IN, OURS, Kind, by_gvk
from volcano.kube.api.manifest import Key, Manifest, is_deleting
from volcano.kube.api.names import JOB_NAME, JOB_NAMESPACE
from volcano.kube.client.operations import Create, Operation, Patch

_KINDS = by_gvk((*BUILT_IN, *OURS))


@dataclass(frozen=True, slots=True)
class PluginObject:
    """One object of a plugin, with owner and labels."""

    plugin: Plugin
    kind: Kind
    manifest: Manifest

    @property
    def key(self) -> Key:
        return Key(self.manifest["metadata"]["namespace"], self.manifest["metadata"]["name"])

    @property
    def is_generated(self) -> bool:
        """Whether the plugin adds content when the object is created."""
        return type(self.plugin).fill is not Plugin.fill


def plugin_objects_of(job: Job, plugins: Sequence[Plugin]) -> tuple[PluginObject, ...]:
    """All objects of the job's plugins. Raises PluginError."""
    return tuple(extra for plugin in plugins for extra in _wanted(job, plugin))


def ensure(
    extra: PluginObject, present: Manifest | None, job: Job, content: Mapping[str, str] | None = None
) -> Iterator[Operation]:
    """The writes that create or update an object; one that was deleted gets the generated `content` that it had.

    One that belongs to another owner is left unchanged.
    """
    if present is not None and is_left_over(present, job):
        if is_deleting(present):
            return  # reconciled again when it is deleted
        yield delete(extra.kind, present)
        present = None
    if present is None:
        manifest = extra.manifest
        if content and extra.is_generated:
            manifest = {**manifest, "data": {**content, **(manifest.get("data") or {})}}
        else:
            manifest = extra.plugin.fill(manifest)
        yield Create(extra.kind, manifest, if_absent=True)
    elif is_ours(present, job):
        data, known = extra.manifest.get("data") or {}, present.get("data") or {}
        changed = {name: value for name, value in data.items() if known.get(name) != value}
        if extra.kind.kind == "ConfigMap":
            changed |= {name: None for name in known if name not in data}
        if changed:
            yield Patch(extra.kind, extra.key, {"data": changed}, if_present=True)


def remove(extra: PluginObject, present: Manifest | None, job: Job) -> Iterator[Operation]:
    """The writes that delete an object of the job."""
    if present is not None and is_ours(present, job) and not is_deleting(present):
        yield delete(extra.kind, present)


def _wanted(job: Job, plugin: Plugin) -> Iterator[PluginObject]:
    try:
        manifests = plugin.extras(job)
    except PluginError:
        raise
    except Exception as error:  # code of a third party, which may raise anything
        raise PluginError(f"plugin {plugin.name} failed: {error!r}") from error
    for manifest in manifests:
        kind = _KINDS.get((manifest.get("apiVersion", ""), manifest.get("kind", "")))
        if kind is None:
            raise PluginError(
                f"plugin {plugin.name} wants a {manifest.get('kind')}, a kind that is not known here"
            )
        metadata = manifest["metadata"]
        yield PluginObject(
            plugin,
            kind,
            {
                **manifest,
                "metadata": {
                    **metadata,
                    "namespace": job.namespace,
                    "labels": {
                        **(metadata.get("labels") or {}),
                        JOB_NAME: job.name,
                        JOB_NAMESPACE: job.namespace,
                    },
                    "ownerReferences": [job.owner_reference()],
                },
            },
        )
