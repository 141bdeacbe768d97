"""`$(NAME)` in commands, arguments and values: replaced where the name is known, left alone where it is not."""

import re
from collections.abc import Mapping

# `$$` stands for one dollar sign, so that `$$(NAME)` comes out as `$(NAME)`.
_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, *variables: Mapping[str, str]) -> str:
    """The text with every reference replaced; the first mapping that has the name decides."""

    def replacement(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return "$"
        return next((known[name] for known in variables if name in known), found[0])

    return _REFERENCE.sub(replacement, text) if "$" in text else text


def unknown_names(text: str, variables: Mapping[str, str]) -> list[str]:
    """The names a text refers to that no variable has, in order."""
    names = (found[1] for found in _REFERENCE.finditer(text))
    return [name for name in names if name is not None and name not in variables]
