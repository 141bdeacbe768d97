"""A page of the dashboard."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from volcano.dashboard.context import Context


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its addresses (the first is in the navigation), its name and what builds it."""

    title: str
    icon: str
    paths: tuple[str, ...]
    build: Callable[[Context], Awaitable[None]]
    key: str = ""  # pressed after `g`, opens the page
    navigation: bool = True
