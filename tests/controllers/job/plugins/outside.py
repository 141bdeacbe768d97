"""A plugin from outside, as an operator would write one."""

from collections.abc import Mapping
from typing import ClassVar

from volcano.controllers.job.plugins.arguments import Value
from volcano.controllers.job.plugins.plugin import Plugin
from volcano.controllers.job.spec import Job, Task
from volcano.kube.api.manifest import Manifest


class Greet(Plugin):
    """Annotates every pod with a greeting."""

    defaults: ClassVar[Mapping[str, Value]] = {"word": "hello"}

    def decorate(self, pod: Manifest, job: Job, task: Task, index: int) -> Manifest:
        pod["metadata"]["annotations"]["greeting"] = f"{self.arguments.text('word')} {index}"
        return pod


class Broken(Plugin):
    """Fails on every pod."""

    def decorate(self, pod: Manifest, job: Job, task: Task, index: int) -> Manifest:
        raise KeyError("nothing here")


class NotAPlugin:
    """Something else of a name one might mistype."""
