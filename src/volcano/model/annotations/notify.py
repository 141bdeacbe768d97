"""Annotations of Jobs and queues that ask for notifications: parsed, with what is wrong and what would be right."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from volcano.kube.api import duration, names

PENDING_AFTER = 1800.0  # seconds
LONGEST_URL = 2048
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class NotificationType(StrEnum):
    """Events that are notified of."""

    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"
    EVICTED = "Evicted"
    PENDING = "Pending"  # for longer than a time


ALL_TYPES = frozenset(NotificationType)


@dataclass(frozen=True, slots=True)
class Subscription:
    """Where and of what a job's owner or its queue wants to be notified."""

    url: str
    types: frozenset[NotificationType] = ALL_TYPES
    secret: tuple[str, str] | None = None  # namespace and name
    pending_after: float = PENDING_AFTER


def subscription(annotations: Mapping[str, str], namespace: str) -> Subscription | None:
    """The subscription of valid annotations; None without one, or if they are invalid.

    The Secret of a Job is in its own `namespace`; that of a queue is `namespace/name`.
    """
    if not annotations.get(names.NOTIFY) or any(problems(annotations, of_queue=not namespace)):
        return None
    secret = annotations.get(names.NOTIFY_SECRET, "")
    where, _, name = secret.rpartition("/")
    waiting = annotations.get(names.NOTIFY_PENDING_AFTER)
    return Subscription(
        annotations[names.NOTIFY],
        _types(annotations.get(names.NOTIFY_ON, "")) or ALL_TYPES,
        (where or namespace, name) if secret else None,
        duration.parse(waiting) if waiting else PENDING_AFTER,
    )


def problems(annotations: Mapping[str, str], *, of_queue: bool) -> Iterator[tuple[str, str]]:
    """Names of invalid annotations, each with what is wrong and what would be right."""
    url = annotations.get(names.NOTIFY, "")
    if url and (problem := url_problem(url)):
        yield names.NOTIFY, problem
    for wanted in _names(annotations.get(names.NOTIFY_ON, "")):
        if wanted not in ALL_TYPES:
            known = ", ".join(NotificationType)
            yield names.NOTIFY_ON, f"{wanted!r} is no type of notification; choose from {known}"
    secret = annotations.get(names.NOTIFY_SECRET, "")
    parts = secret.split("/")
    if secret and (len(parts) != 1 + of_queue or not all(map(_NAME.fullmatch, parts))):
        form = "<namespace>/<name>" if of_queue else "the name of a Secret in the job's namespace"
        yield names.NOTIFY_SECRET, f"{secret!r} is no Secret; write {form}"
    waiting = annotations.get(names.NOTIFY_PENDING_AFTER)
    if waiting is not None and not _is_positive(waiting):
        yield (
            names.NOTIFY_PENDING_AFTER,
            f"{waiting!r} is no duration longer than 0; write such as 30m or 2h",
        )


def url_problem(url: str) -> str:
    """Problem of the URL of a target; empty for a valid one."""
    right = "write such as https://example.com/hooks/volcano"
    if len(url) > LONGEST_URL:
        return f"the URL has {len(url)} characters; at most {LONGEST_URL} are allowed"
    if any(not "!" <= character <= "~" for character in url):
        return f"{url!r} contains characters that must be percent-encoded; {right}"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"{url!r} is no URL: {error}; {right}"
    if parts.scheme not in ("https", "http") or not host:
        return f"{url!r} is no https or http URL with a host; {right}"
    if parts.username is not None or parts.password is not None:
        return (
            f"the URL contains a user or a password; use {names.NOTIFY_SECRET} to authenticate notifications"
        )
    if parts.fragment:
        return f"{url!r} has a fragment (#), which is never sent; leave it out"
    return ""


def _names(text: str) -> list[str]:
    return [part for part in (part.strip() for part in text.split(",")) if part]


def _types(text: str) -> frozenset[NotificationType]:
    return frozenset(NotificationType(name) for name in _names(text))


def _is_positive(text: str) -> bool:
    try:
        return duration.parse(text) > 0
    except ValueError:
        return False
