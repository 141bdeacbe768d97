"""Diagrams of the site: boxes and arrows as SVG that follows the reader's light or dark colours."""

from dataclasses import dataclass
from html import escape

STYLE = """<style>
.box { fill: #fff3e0; stroke: #bf360c } .plain { fill: none; stroke: #9e9e9e; stroke-dasharray: 4 3 }
.text, .label { font-family: sans-serif; font-size: 13px; text-anchor: middle; fill: #212121 }
.label { font-size: 11px } .arrow { stroke: #616161; fill: none; marker-end: url(#head) } .head { fill: #616161 }
@media (prefers-color-scheme: dark) {
  .box { fill: #3e2723; stroke: #ff8a65 } .text, .label { fill: #eeeeee }
  .arrow { stroke: #bdbdbd } .head { fill: #bdbdbd }
}
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">
<path class="head" d="M0 0 L8 4 L0 8 z"/></marker></defs>"""


@dataclass(frozen=True)
class Box:
    text: str  # lines are separated by a newline
    x: int
    y: int
    width: int = 150
    height: int = 44
    style: str = "box"

    def draw(self) -> str:
        lines = self.text.split("\n")
        top = self.y + self.height / 2 + 4.5 - 8 * (len(lines) - 1)
        middle = self.x + self.width / 2
        if self.style == "plain":  # a frame around others: its text is in the corner
            middle, top = self.x + 90, self.y + 18
        texts = "".join(
            f'<text class="text" x="{middle}" y="{top + 16 * number}">{escape(line)}</text>'
            for number, line in enumerate(lines)
        )
        place = f'x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}"'
        return f'<rect class="{self.style}" {place} rx="6"/>{texts}'


@dataclass(frozen=True)
class Arrow:
    x1: int
    y1: int
    x2: int
    y2: int
    text: str = ""
    dx: int = 0
    dy: int = -5

    def draw(self) -> str:
        line = f'<path class="arrow" d="M{self.x1} {self.y1} L{self.x2} {self.y2}"/>'
        if not self.text:
            return line
        x, y = (self.x1 + self.x2) / 2 + self.dx, (self.y1 + self.y2) / 2 + self.dy
        return f'{line}<text class="label" x="{x}" y="{y}">{escape(self.text)}</text>'


def svg(width: int, height: int, *parts: Box | Arrow) -> str:
    drawn = "".join(part.draw() for part in parts)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    return f"{head}{STYLE}{drawn}</svg>\n"


def components() -> str:
    return svg(
        760, 330,
        Box("volcano up: one process", 20, 70, 720, 170, "plain"),
        Box("kubectl, vcctl, operators", 285, 10, 190, 40),
        Box("API server: authn, authz, admission chain, registry, store", 40, 110, 680, 44),
        Box("scheduler", 40, 186, 120, 40),
        Box("controllers", 180, 186, 120, 40),
        Box("admission rules", 320, 186, 120, 40),
        Box("kubelet", 460, 186, 120, 40),
        Box("simulated nodes", 600, 186, 120, 40),
        Box("shim: runs the containers,\noutlives the process", 420, 270, 200, 46),
        Arrow(380, 50, 380, 110, "HTTPS", 26, -12),
        Arrow(100, 186, 100, 154, "watch, write", 44, 5),
        Arrow(240, 186, 240, 154),
        Arrow(380, 154, 380, 186, "calls", 22, 5),
        Arrow(520, 186, 520, 154),
        Arrow(660, 186, 660, 154),
        Arrow(520, 226, 520, 270, "socket", 26, 16),
    )  # fmt: skip


def scheduling_cycle() -> str:
    return svg(
        760, 190,
        Box("API server", 10, 20, 110),
        Box("cache\nfed by informers", 170, 20, 130),
        Box("snapshot", 350, 20, 100),
        Box("session: plugins open", 500, 20, 180),
        Box("actions\nenqueue, allocate, ...", 500, 110, 180),
        Box("decisions", 350, 110, 100),
        Box("write-back", 170, 110, 130),
        Arrow(120, 42, 170, 42, "watch"),
        Arrow(300, 42, 350, 42),
        Arrow(450, 42, 500, 42),
        Arrow(590, 64, 590, 110),
        Arrow(500, 132, 450, 132),
        Arrow(350, 132, 300, 132),
        Arrow(170, 132, 65, 64, "bind, evict, status", -18, 24),
        Arrow(235, 110, 235, 64, "assume", 24, 4),
    )  # fmt: skip


def job_phases() -> str:
    return svg(
        760, 270,
        Box("Pending", 20, 100, 100),
        Box("Running", 190, 100, 100),
        Box("Completing", 370, 20, 110),
        Box("Completed", 560, 20, 110),
        Box("Restarting", 190, 200, 100),
        Box("Aborting", 370, 100, 110),
        Box("Aborted", 560, 100, 110),
        Box("Terminating", 370, 180, 110),
        Box("Terminated", 560, 165, 110),
        Box("Failed", 560, 220, 110),
        Arrow(120, 122, 190, 122, "gang runs"),
        Arrow(290, 110, 370, 50, "tasks succeed", -34, -8),
        Arrow(480, 42, 560, 42),
        Arrow(290, 122, 370, 122, "suspend"),
        Arrow(480, 122, 560, 122),
        Arrow(290, 135, 370, 195, "TerminateJob", 46, -6),
        Arrow(480, 200, 560, 190),
        Arrow(240, 144, 240, 200, "policy", 24, 4),
        Arrow(190, 215, 80, 144, "pods recreated", -40, 16),
        Arrow(290, 235, 560, 246, "maxRetry used up", 0, 16),
    )  # fmt: skip


DIAGRAMS = {
    "images/components.svg": components,
    "images/scheduling-cycle.svg": scheduling_cycle,
    "images/job-phases.svg": job_phases,
}
