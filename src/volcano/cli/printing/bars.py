"""Bar of a share: filled by use, with marks for guarantee, deserved and capability."""

from dataclasses import dataclass

FULL, EMPTY = "█", "·"
EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
# Distinguishable without colours: [ opens at the guarantee, ] closes at the capability, | is deserved.
GUARANTEE, DESERVED, CAPABILITY = "[", "|", "]"
STYLES = {GUARANTEE: "bold cyan", DESERVED: "bold yellow", CAPABILITY: "bold red"}
LEGEND = f"{GUARANTEE} guarantee  {DESERVED} deserved  {CAPABILITY} capability"


@dataclass(frozen=True, slots=True)
class Gauge:
    """Values of one bar, in one unit."""

    used: float
    total: float
    guarantee: float | None = None
    deserved: float | None = None
    capability: float | None = None


def bar(gauge: Gauge, width: int) -> list[tuple[str, str]]:
    """Bar as pieces of text with styles, `width` characters in total."""
    if width <= 0:
        return []
    cells = _cells(gauge, width)
    # Where marks collide, the guarantee moves one cell left and the capability one cell right.
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
    """Bar as plain text."""
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
    """Green up to deserved, yellow above it, red at the capability."""
    limit = gauge.total if gauge.capability is None else gauge.capability
    if limit > 0 and gauge.used >= limit * 0.999:
        return "red"
    if gauge.deserved is not None and gauge.used > gauge.deserved:
        return "yellow"
    return "green"


def _joined(cells: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Joins neighbouring cells of one style."""
    pieces: list[tuple[str, str]] = []
    for text, style in cells:
        if pieces and pieces[-1][1] == style:
            pieces[-1] = (pieces[-1][0] + text, style)
        else:
            pieces.append((text, style))
    return pieces
