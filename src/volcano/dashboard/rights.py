"""What a viewer may do: asked of the API server with the viewer's own credentials, and remembered for some seconds."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from volcano.base.clock import Clock
from volcano.kube.api.errors import ApiError, Unavailable
from volcano.kube.api.kinds import SELF_SUBJECT_ACCESS_REVIEW, Kind
from volcano.kube.client.protocol import Client

REMEMBERED_SECONDS = 15.0
FORGOTTEN_SECONDS = 3600.0
PARALLEL = 16
EVERYWHERE = "*"


@dataclass(frozen=True, slots=True)
class Question:
    """One access review."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Scopes:
    """Namespaces in which a viewer may list each kind; EVERYWHERE for all of them."""

    namespaces: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def everything(cls, kinds: Iterable[Kind]) -> "Scopes":
        """Those of a viewer who may list these kinds in the whole cluster."""
        return cls({_name(kind): frozenset({EVERYWHERE}) for kind in kinds})

    def everywhere(self, kind: Kind) -> bool:
        return EVERYWHERE in self.namespaces.get(_name(kind), ())

    def of(self, kind: Kind) -> frozenset[str]:
        return self.namespaces.get(_name(kind), frozenset())

    def signature(self) -> tuple[tuple[str, frozenset[str]], ...]:
        """Equal for viewers who see the same objects."""
        return tuple(sorted(self.namespaces.items(), key=lambda item: item[0]))


class Rights:
    """Answers of the API server to one viewer's access reviews."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._answers: dict[Question, tuple[float, bool]] = {}
        self._limit = asyncio.Semaphore(PARALLEL)

    async def may(
        self, verb: str, kind: Kind, namespace: str = "", name: str = "", subresource: str = ""
    ) -> bool:
        """Whether the viewer may do this. While the API server does not answer, the last answer counts."""
        if not kind.namespaced:
            namespace = ""
        question = Question(verb, kind.group, kind.plural, namespace, name, subresource)
        now = self._clock.now().monotonic
        known = self._answers.get(question)
        if known is not None and now - known[0] < REMEMBERED_SECONDS:
            return known[1]
        answer = await self._ask(question)
        if answer is None:
            return known is not None and known[1]
        self._answers[question] = (now, answer)
        return answer

    async def scopes(self, kinds: Iterable[Kind], namespaces: Iterable[str]) -> Scopes:
        """Where the viewer may list these kinds."""
        found = {}
        listed = list(namespaces)
        for kind in kinds:
            if await self.may("list", kind):
                found[_name(kind)] = frozenset({EVERYWHERE})
            elif kind.namespaced:
                answers = await asyncio.gather(*(self.may("list", kind, each) for each in listed))
                found[_name(kind)] = frozenset(
                    each for each, allowed in zip(listed, answers, strict=True) if allowed
                )
            else:
                found[_name(kind)] = frozenset()
        self._forget_old()
        return Scopes(found)

    async def _ask(self, question: Question) -> bool | None:
        attributes = {
            "verb": question.verb,
            "group": question.group,
            "resource": question.resource,
            "namespace": question.namespace,
            "name": question.name,
            "subresource": question.subresource,
        }
        review = {
            "apiVersion": SELF_SUBJECT_ACCESS_REVIEW.api_version,
            "kind": SELF_SUBJECT_ACCESS_REVIEW.kind,
            "metadata": {},
            "spec": {"resourceAttributes": {name: value for name, value in attributes.items() if value}},
        }
        try:
            async with self._limit:
                answer = await self._client.create(SELF_SUBJECT_ACCESS_REVIEW, review)
        except Unavailable:
            return None
        except ApiError:
            return False
        return bool((answer.get("status") or {}).get("allowed"))

    def _forget_old(self) -> None:
        now = self._clock.now().monotonic
        self._answers = {
            question: answer
            for question, answer in self._answers.items()
            if now - answer[0] < FORGOTTEN_SECONDS
        }


def _name(kind: Kind) -> str:
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural
