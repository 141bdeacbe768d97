"""Resource amounts as numbers, and as text for people."""

from collections.abc import Mapping

from volcano.kube.api import quantity

# Amounts in whole units: cores, bytes, devices.
Amounts = Mapping[str, float]

FIRST = ("cpu", "memory")
# Present on every node and not worth a column; huge pages are only where some were reserved.
UNINTERESTING = ("pods", "ephemeral-storage", "attachable-volumes")
HUGE_PAGES = "hugepages-"


def amounts(listed: object) -> dict[str, float]:
    """Resource list as numbers; invalid quantities are skipped."""
    found: dict[str, float] = {}
    for name, value in listed.items() if isinstance(listed, Mapping) else ():
        try:
            found[str(name)] = float(quantity.parse(value))
        except (ValueError, TypeError):
            continue
    return found


def largest_part(held: Amounts, total: Amounts) -> float:
    """Dominant share: the largest part of any resource that is held."""
    return max((held.get(name, 0.0) / most for name, most in total.items() if most > 0), default=0.0)


def resource_names(total: Amounts) -> list[str]:
    """Resources with a column: cpu, memory, then devices of any node."""
    devices = sorted(name for name, amount in total.items() if amount > 0 and name not in FIRST)
    return [*FIRST, *devices]


def shown(resource: str, amount: float) -> str:
    """Amount for people: at most three digits and a suitable unit, such as 2.5, 80Gi or 512Mi."""
    if resource == "memory" or resource.endswith("storage") or resource.startswith("hugepages"):
        for suffix, size in (("Ti", 2.0**40), ("Gi", 2.0**30), ("Mi", 2.0**20), ("Ki", 2.0**10)):
            if amount >= size:
                return f"{_figures(amount / size)}{suffix}"
        return _figures(amount)
    return f"{_figures(amount / 1000)}k" if amount >= 10_000 else _figures(amount)


def quantity_shown(resource: str, text: str) -> str:
    """As `shown`, for a quantity: 85.3Gi for 91625968981. Other texts, such as `none` of a limit, stay as they are."""
    try:
        return shown(resource, float(quantity.parse(text)))
    except ValueError:
        return text


def _figures(amount: float) -> str:
    return f"{amount:.0f}" if amount >= 100 or amount == int(amount) else f"{amount:.1f}".removesuffix(".0")


def short_name(resource: str) -> str:
    """Resource name without its domain: `nvidia.com/gpu` is `gpu`."""
    return resource.rpartition("/")[2]
