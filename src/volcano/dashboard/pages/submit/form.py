"""The form: inputs that show and change one Job."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui import events, ui

from volcano.controllers.job.plugins.loading import known_plugins
from volcano.dashboard.data.submission import (
    FIELDS,
    GPU,
    TASK_FIELDS,
    Choices,
    Field,
    Problem,
    add_task,
    remove_task,
    tasks_of,
    write_task,
)
from volcano.dashboard.pages.widgets import card
from volcano.kube.api.manifest import Manifest
from volcano.model.annotations.walltime import EXAMPLES

WIDE, NARROW = "grow basis-44", "grow basis-24"
TYPING = "outlined dense stack-label debounce=300"


class Form:
    """Inputs of one Job. `on_edit` is called with the changed Job."""

    def __init__(self, job: Manifest, choices: Choices, on_edit: Callable[[Manifest], None]) -> None:
        self._job = job
        self._choices = choices
        self._on_edit = on_edit
        self._inputs: dict[str, Any] = {}
        self._task_inputs: list[dict[str, Any]] = []
        with card("Job"), ui.row().classes("w-full gap-3 items-start"):
            self._add_job_inputs()
        with ui.column().classes("w-full gap-4") as self._tasks:
            pass
        self._add = ui.button("Add a task", icon="add", on_click=lambda: self._edit(add_task(self._job)))
        self._add.props("outline")
        self._fill()

    def show(self, job: Manifest) -> None:
        """Shows another Job, without calling `on_edit`."""
        self._job = job
        self._fill()

    def enable(self, enabled: bool) -> None:
        for element in (
            self._add,
            *self._inputs.values(),
            *(e for inputs in self._task_inputs for e in inputs.values()),
        ):
            element.set_enabled(enabled)

    def choose_from(self, choices: Choices) -> None:
        """Offers other names, when objects of the cluster have changed."""
        if choices == self._choices:
            return
        self._choices = choices
        for name, options in self._options().items():
            _offer(self._inputs[name], options)
        for inputs in self._task_inputs:
            _offer(inputs["device"], choices.devices)

    def show_problems(self, problems: Sequence[Problem]) -> list[Problem]:
        """Shows errors at their fields; returns those that the form has no field for."""
        self.clear_problems()
        rest = []
        for problem in problems:
            inputs = self._inputs_of(problem.task)
            if problem.field in inputs:
                inputs[problem.field].error = problem.message
            else:
                rest.append(problem)
        return rest

    def clear_problems(self) -> None:
        for inputs in (self._inputs, *self._task_inputs):
            for element in inputs.values():
                if element.error:
                    element.error = None

    def _inputs_of(self, task: int) -> Mapping[str, Any]:
        if task < 0:
            return self._inputs
        return self._task_inputs[task] if task < len(self._task_inputs) else {}

    # -- inputs --------------------------------------------------------------------------------------

    def _options(self) -> dict[str, Sequence[str]]:
        return {
            "namespace": self._choices.namespaces,
            "queue": self._choices.queues,
            "priorityClassName": self._choices.priority_classes,
        }

    def _add_job_inputs(self) -> None:
        add = self._inputs
        options = self._options()
        add["name"] = _text("Name", WIDE, placeholder="generated")
        add["namespace"] = _chosen("Namespace", WIDE, options["namespace"])
        add["queue"] = _chosen("Queue", WIDE, options["queue"])
        add["priorityClassName"] = _chosen("Priority class", WIDE, options["priorityClassName"])
        add["minAvailable"] = _text("minAvailable", NARROW, placeholder="all pods")
        add["walltime"] = _text("Walltime", NARROW, placeholder="none")
        add["walltime"].tooltip(f"The longest time that the job runs: {EXAMPLES}.")
        plugins = ui.select(list(known_plugins()), label="Plugins", multiple=True, value=[])
        plugins.props("outlined dense stack-label use-chips").classes(WIDE)
        add["plugins"] = plugins
        for name, element in add.items():
            element.on_value_change(lambda event, name=name: self._on_change(FIELDS[name], event))

    def _add_task_inputs(self, position: int) -> None:
        inputs: dict[str, Any] = {}
        with card(f"Task {position + 1}") as section:
            section.classes("relative")
            if position or len(tasks_of(self._job)) > 1:
                remove = ui.button(
                    icon="close", on_click=lambda: self._edit(remove_task(self._job, position))
                )
                remove.props(f'flat round dense aria-label="Remove task {position + 1}"')
                remove.classes("absolute top-2 right-2")
            with ui.row().classes("w-full gap-3 items-start"):
                inputs["name"] = _text("Task name", WIDE)
                inputs["replicas"] = _text("Replicas", NARROW)
                inputs["image"] = _text("Image", WIDE)
                inputs["command"] = _text("Command", "w-full", placeholder="that of the image")
                inputs["command"].props("autogrow type=textarea input-class=font-mono")
                inputs["cpu"] = _text("CPU", NARROW)
                inputs["memory"] = _text("Memory", NARROW)
                inputs["devices"] = _text("GPUs", NARROW, placeholder="0")
                inputs["device"] = _chosen("GPU resource", WIDE, self._choices.devices, clearable=False)
        for name, element in inputs.items():
            element.on_value_change(
                lambda event, name=name: self._on_task_change(position, TASK_FIELDS[name], event)
            )
        self._task_inputs.append(inputs)

    # -- values --------------------------------------------------------------------------------------

    def _fill(self) -> None:
        for name, element in self._inputs.items():
            _set(element, FIELDS[name].read(self._job))
        tasks = tasks_of(self._job)
        if len(tasks) != len(self._task_inputs):
            self._tasks.clear()
            self._task_inputs = []
            with self._tasks:
                for position in range(len(tasks)):
                    self._add_task_inputs(position)
        for task, inputs in zip(tasks, self._task_inputs, strict=True):
            for name, element in inputs.items():
                value = TASK_FIELDS[name].read(task)
                _set(element, value or element.value or GPU if name == "device" else value)

    def _on_change(self, field: Field, event: events.ValueChangeEventArguments[Any]) -> None:
        if _same(field.read(self._job), event.value):
            return
        self._clear(self._inputs[field.name])
        self._edit(field.write(self._job, event.value))

    def _on_task_change(
        self, position: int, field: Field, event: events.ValueChangeEventArguments[Any]
    ) -> None:
        task = tasks_of(self._job)[position]
        inputs = self._task_inputs[position]
        if _same(field.read(task), event.value):
            return
        if field.name == "device" and not TASK_FIELDS["devices"].read(task):
            return  # chosen before a number is
        self._clear(inputs[field.name])
        job = write_task(self._job, position, field.name, event.value)
        if field.name == "devices" and inputs["device"].value:
            job = write_task(job, position, "device", inputs["device"].value) if event.value else job
        self._edit(job)

    def _clear(self, element: Any) -> None:
        if element.error:
            element.error = None

    def _edit(self, job: Manifest) -> None:
        tasks = len(tasks_of(self._job))
        self._job = job
        if len(tasks_of(job)) != tasks:
            self._fill()
        self._on_edit(job)


def _text(label: str, classes: str, *, placeholder: str = "") -> ui.input:
    element = ui.input(label, placeholder=placeholder).props(TYPING).classes(classes)
    element.props["autocomplete"] = "off"
    return element


def _chosen(label: str, classes: str, options: Sequence[str], *, clearable: bool = True) -> ui.select:
    """A list of names in which others may be typed: viewers may know names that they may not list."""
    element = ui.select(list(options), label=label, new_value_mode="add-unique", clearable=clearable)
    return element.props("outlined dense stack-label hide-dropdown-icon=false").classes(classes)


def _offer(element: ui.select, options: Sequence[str]) -> None:
    value = element.value
    element.set_options(
        [*options, *([value] if value and value not in options else [])],
        value=value,
    )


def _set(element: Any, value: Any) -> None:
    if isinstance(element, ui.select):
        chosen = value if isinstance(value, list) else [value] if value else []
        new = [each for each in chosen if each not in element.options]
        if new:
            element.set_options([*element.options, *new])
        value = value or ([] if element.multiple else None)
    if element.value != value:
        element.set_value(value)


def _same(known: Any, value: Any) -> bool:
    return bool((known or None) == (value or None))
