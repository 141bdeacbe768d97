"""The tab of YAML: the Job, its PodGroup or the chosen pod as the API server has it."""

from typing import Any

from nicegui import events, ui

from volcano.base.yaml_dumper import dump
from volcano.dashboard.pages.jobs.open_job import OpenJob
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import JOB, POD, POD_GROUP, Kind
from volcano.kube.api.manifest import Key, Manifest, key_of

IS_DARK = 'document.body.classList.contains("body--dark")'


async def build(job: OpenJob) -> None:
    _Yaml(job)


class _Yaml:
    """One object, read with the viewer's permissions, without the managed fields."""

    def __init__(self, job: OpenJob) -> None:
        self._job = job
        self._shown: tuple[str, str] = ("", "")
        self._text = ""
        with ui.row().classes("w-full items-center gap-3"):
            self._choice = ui.select(
                self._objects(), value=self._objects()[0], label="Object", on_change=self._on_choice
            )
            self._choice.props("dense outlined options-dense").classes("w-80")
            ui.button("Copy", icon="content_copy", on_click=self._copy).props("flat dense")
            ui.button("Download", icon="download", on_click=self._download).props("flat dense")
        self._problem = ui.label().classes("volcano-muted").props('role="alert"')
        self._problem.set_visibility(False)
        self._editor = ui.codemirror("", language="YAML", theme="githubLight", line_wrapping=True)
        self._editor.props('disable aria-label="YAML"').classes("w-full").style(
            "height: auto; max-height: 70vh"
        )
        ui.timer(0.1, self._use_theme, once=True)
        job.on_update("yaml", self._update)

    async def _use_theme(self) -> None:
        """The editor has themes of its own; only the browser knows whether the page is dark."""
        try:
            dark = await ui.run_javascript(IS_DARK, timeout=10.0)
        except TimeoutError:
            return
        self._editor.set_theme("githubDark" if dark else "githubLight")

    def _objects(self) -> list[str]:
        view = self._job.view
        names = [f"{_kind(view.item.row.grouped_only).kind} {self._job.key.name}"]
        if view.group is not None and not view.item.row.grouped_only:
            names.append(f"PodGroup {key_of(view.group).name}")
        return [*names, *(f"Pod {key_of(pod).name}" for pod in view.pods)]

    async def _on_choice(self, _event: events.ValueChangeEventArguments[Any]) -> None:
        await self._update()

    async def _update(self) -> None:
        names = self._objects()
        if self._choice.options != names:
            value = self._choice.value if self._choice.value in names else names[0]
            self._choice.set_options(names, value=value)
        chosen = str(self._choice.value)
        kind_name, _, name = chosen.partition(" ")
        state = (chosen, self._version(chosen))
        if state == self._shown:
            return
        self._shown = state
        kind = {JOB.kind: JOB, POD_GROUP.kind: POD_GROUP, POD.kind: POD}[kind_name]
        await self._read(kind, Key(self._job.key.namespace, name))

    def _version(self, chosen: str) -> str:
        """Resource version of an object in the shared informer, so that a change is noticed."""
        kind_name, _, name = chosen.partition(" ")
        view = self._job.view
        candidates: list[Manifest] = [
            view.manifest,
            *([view.group] if view.group is not None else []),
            *view.pods,
        ]
        found = next((each for each in candidates if _is(each, kind_name, name)), None)
        return str(found["metadata"].get("resourceVersion", "")) if found is not None else ""

    async def _read(self, kind: Kind, key: Key) -> None:
        try:
            found = await self._job.context.viewer.connection.client.get(kind, key)
        except ApiError as error:
            self._problem.set_text(error.message)
            self._problem.set_visibility(True)
            return
        self._problem.set_visibility(False)
        found["metadata"].pop("managedFields", None)
        self._text = dump(found, sort_keys=True).rstrip("\n")
        self._editor.set_value(self._text)

    def _copy(self) -> None:
        ui.clipboard.write(self._text)
        ui.notify("Copied")

    def _download(self) -> None:
        ui.download.content(self._text, f"{self._job.key.name}.yaml", "application/yaml")


def _is(manifest: Manifest, kind: str, name: str) -> bool:
    """Objects of a watch may have no kind of their own."""
    return manifest.get("kind", kind) == kind and key_of(manifest).name == name


def _kind(grouped_only: bool) -> Kind:
    return POD_GROUP if grouped_only else JOB
