"""Expands `$(NAME)` in commands, arguments and values; unknown names are left unchanged."""

import re
from collections.abc import Mapping

# `$$` is an escaped dollar sign: `$$(NAME)` becomes `$(NAME)`.
_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, *variables: Mapping[str, str]) -> str:
    """Replaces every reference; the first mapping that has the name wins."""

    def replacement(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return "$"
        return next((known[name] for known in variables if name in known), found[0])

    return _REFERENCE.sub(replacement, text) if "$" in text else text


def unknown_names(text: str, variables: Mapping[str, str]) -> list[str]:
    """The names in a text that no variable has, in order."""
    names = (found[1] for found in _REFERENCE.finditer(text))
    return [name for name in names if name is not None and name not in variables]
