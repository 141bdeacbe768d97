"""Resource quantities on the command line: `cpu=1000m,memory=100Mi`."""

from collections.abc import Mapping

from volcano.cli.errors import UsageError
from volcano.cli.printing.tables import Column
from volcano.kube.api.quantity import parse
from volcano.views.amounts import Amounts, resource_names, short_name, shown
from volcano.views.queues import QueueShare


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


def amount_columns(total: Amounts) -> list[Column]:
    """Columns with allocated and deserved amounts per resource."""

    def column(resource: str) -> Column:
        def value(queue: QueueShare) -> str:
            held = shown(resource, queue.allocated.get(resource, 0.0))
            return (
                f"{held}/{shown(resource, queue.deserved[resource])}" if resource in queue.deserved else held
            )

        return Column(f"{short_name(resource)}/deserved", value)

    return [column(resource) for resource in resource_names(total)]
