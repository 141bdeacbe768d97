"""A share as a bar: filled as far as it is used, with marks where the guarantee, the due and the limit are."""

from dataclasses import dataclass

FULL, EMPTY = "█", "·"
EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
# They tell themselves apart without colours: a floor opens, a ceiling closes, the due stands between.
GUARANTEE, DESERVED, CAPABILITY = "[", "|", "]"
STYLES = {GUARANTEE: "bold cyan", DESERVED: "bold yellow", CAPABILITY: "bold red"}
LEGEND = f"{GUARANTEE} guarantee  {DESERVED} deserved  {CAPABILITY} capability"


@dataclass(frozen=True, slots=True)
class Gauge:
    """What one bar shows, all in the same unit."""

    used: float
    total: float
    guarantee: float | None = None
    deserved: float | None = None
    capability: float | None = None


def bar(gauge: Gauge, width: int) -> list[tuple[str, str]]:
    """The bar as pieces of text with their styles; `width` characters in all."""
    if width <= 0:
        return []
    cells = _cells(gauge, width)
    # Where marks meet, the floor moves one to the left and the ceiling one to the right of what is due.
    for mark, amount, aside in (
        (DESERVED, gauge.deserved, 0),
        (GUARANTEE, gauge.guarantee, -1),
        (CAPABILITY, gauge.capability, 1),
    ):
        if amount is not None and amount > 0 and gauge.total > 0:
            place = min(int(min(amount / gauge.total, 1.0) * width), width - 1)
            if cells[place][0] in STYLES and 0 <= place + aside < width:
                place += aside
            cells[place] = (mark, STYLES[mark])
    return _joined(cells)


def plain(gauge: Gauge, width: int) -> str:
    """The bar as text only."""
    return "".join(text for text, _ in bar(gauge, width))


def _cells(gauge: Gauge, width: int) -> list[tuple[str, str]]:
    part = min(max(gauge.used / gauge.total, 0.0), 1.0) if gauge.total > 0 else 0.0
    eighths = round(part * width * 8)
    if gauge.used > 0:
        eighths = max(eighths, 1)
    style = fill_style(gauge)
    cells = [(FULL, style)] * (eighths // 8)
    if eighths % 8:
        cells.append((EIGHTHS[eighths % 8], style))
    return cells + [(EMPTY, "dim")] * (width - len(cells))


def fill_style(gauge: Gauge) -> str:
    """Green while within what is due, yellow beyond it, red at the limit."""
    limit = gauge.total if gauge.capability is None else gauge.capability
    if limit > 0 and gauge.used >= limit * 0.999:
        return "red"
    if gauge.deserved is not None and gauge.used > gauge.deserved:
        return "yellow"
    return "green"


def _joined(cells: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Neighbours of one style as one piece."""
    pieces: list[tuple[str, str]] = []
    for text, style in cells:
        if pieces and pieces[-1][1] == style:
            pieces[-1] = (pieces[-1][0] + text, style)
        else:
            pieces.append((text, style))
    return pieces
