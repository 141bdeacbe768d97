"""Validation of lifecycle policies: combinations of events, exit codes and actions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from volcano.webhooks.numbers import check_duration
from volcano.webhooks.review import Violation

EVENTS = (
    "*",
    "PodFailed",
    "PodEvicted",
    "PodPending",
    "PodRunning",
    "Unknown",
    "JobUnknown",
    "TaskCompleted",
    "TaskFailed",
    "JobUpdated",
)
ACTIONS = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
)
# Events that every pod causes: only their duration matters.
TIMED = {"PodPending": "every pod starts pending", "PodRunning": "every pod runs at some time"}
LARGEST_EXIT_CODE = 255
SYNONYMS = {"JobUnknown": "Unknown"}


def check_policies(policies: Sequence[Mapping[str, Any]], path: str) -> Iterable[Violation]:
    """Violations in a list of policies, each with the path of its policy."""
    events: dict[str, int] = {}
    codes: dict[int, int] = {}
    for place, given in enumerate(policies):
        policy = given or {}
        here = f"{path}[{place}]"
        named = policy_events(policy)
        if named and policy.get("exitCode") is not None:
            yield Violation(here, "must not specify event and exitCode simultaneously; keep one of them")
        elif named:
            yield from _check_events(policy, named, events, place, here)
        elif policy.get("exitCode") is not None:
            yield from _check_exit_code(policy, codes, place, here)
        else:
            yield Violation(here, "either event and exitCode should be specified")
        yield from _check_action(policy, here)
        yield from check_duration(policy.get("timeout"), f"{here}.timeout", zero=not {*named} & {*TIMED})
    if "*" in events and len(events) > 1:
        others = ", ".join(sorted(event for event in events if event != "*"))
        yield Violation(path, f"if there's * here, no other policy should be here; found {others} too")


def policy_events(policy: Mapping[str, Any]) -> list[str]:
    """The events of a policy, each once, by their canonical names."""
    named = [*([policy["event"]] if policy.get("event") else []), *(policy.get("events") or ())]
    return list(dict.fromkeys(SYNONYMS.get(event, event) for event in named))


def _check_events(
    policy: Mapping[str, Any], named: list[str], events: dict[str, int], place: int, here: str
) -> Iterable[Violation]:
    for event in named:
        if event not in EVENTS:
            yield Violation(
                f"{here}.event", f"invalid policy event {event!r}; choose from {', '.join(EVENTS)}"
            )
        elif event in events:
            text = (
                f"duplicate event {event}  across different policy: policy {events[event]} names it already"
            )
            yield Violation(f"{here}.event", text)
        events.setdefault(event, place)
        if event in TIMED and not policy.get("timeout"):
            yield Violation(f"{here}.timeout", f"{event} needs a timeout such as 10m: {TIMED[event]}")


def _check_exit_code(
    policy: Mapping[str, Any], codes: dict[int, int], place: int, here: str
) -> Iterable[Violation]:
    code = policy["exitCode"]
    if code == 0 and not isinstance(code, bool):
        yield Violation(f"{here}.exitCode", "0 is not a valid error code; choose 1 to 255")
    elif isinstance(code, bool) or not isinstance(code, int) or not 0 < code <= LARGEST_EXIT_CODE:
        yield Violation(f"{here}.exitCode", f"'exitCode' must be a whole number from 1 to 255, not {code!r}")
        return
    elif code in codes:
        yield Violation(
            f"{here}.exitCode", f"duplicate exitCode {code}: policy {codes[code]} names it already"
        )
    codes.setdefault(code, place)


def _check_action(policy: Mapping[str, Any], here: str) -> Iterable[Violation]:
    action = policy.get("action", "")
    if action not in ACTIONS:
        yield Violation(
            f"{here}.action", f"invalid policy action {action!r}; choose from {', '.join(ACTIONS)}"
        )
