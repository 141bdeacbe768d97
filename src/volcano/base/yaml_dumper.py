"""Values as YAML that every reader takes for the same values.

PyYAML leaves a string such as 08 without quotes, because it is no number to it. To kubectl and to our own reader it is
one, and a label that was printed and applied again would be rejected.
"""

import re
from typing import Any

import yaml

_NUMBER = re.compile(
    r"^(?:[-+]?(?:0o[0-7]+|0b[01]+|0x[0-9a-fA-F]+|(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?))$"
)
_SHORT_BOOL = re.compile("^[yYnN]$")


class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Quotes strings that a reader could take for a number or a truth value."""


Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))
Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", _SHORT_BOOL, list("yYnN"))


def dump(value: Any, *, sort_keys: bool = False) -> str:
    """One document in block style, with long lines left whole."""
    text: str = yaml.dump(
        value,
        Dumper=Dumper,
        sort_keys=sort_keys,
        default_flow_style=False,
        allow_unicode=True,
        width=10_000,
    )
    return text
