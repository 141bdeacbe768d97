"""Resource quantities on the command line: `cpu=1000m,memory=100Mi`."""

from collections.abc import Mapping

from volcano.cli.errors import UsageError
from volcano.kube.api.quantity import parse


def parse_resources(text: str, flag: str) -> dict[str, str]:
    """Parses the quantities of a flag; empty for an empty text."""
    amounts: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, equals, amount = (piece.strip() for piece in part.partition("="))
        if not name or not equals or not amount:
            raise UsageError(f"{flag}: invalid argument syntax {part!r}; write name=quantity,name=quantity")
        try:
            parse(amount)
        except ValueError as error:
            raise UsageError(f"{flag}: {name}: {error}") from None
        amounts[name] = amount
    return amounts


def resources_text(amounts: Mapping[str, object] | None) -> str:
    """Quantities as written on the command line; `<none>` if empty."""
    return ",".join(f"{name}={amount}" for name, amount in sorted((amounts or {}).items())) or "<none>"
