"""Generated files: path in the site, and the function that returns the content."""

from collections.abc import Callable

from tools.docs.annotations import annotations_page
from tools.docs.command_line import programs_page, vcctl_page, volcano_page
from tools.docs.configuration import configuration_page
from tools.docs.definitions import definitions_page
from tools.docs.diagnoses import diagnoses_page
from tools.docs.diagrams import DIAGRAMS
from tools.docs.events import events_page
from tools.docs.indexes import decisions_page, parity_page
from tools.docs.metrics import metrics_page

PAGES: dict[str, Callable[[], str]] = {
    "reference/vcctl.md": vcctl_page,
    "reference/volcano.md": volcano_page,
    "reference/programs.md": programs_page,
    "reference/configuration.md": configuration_page,
    "reference/crds.md": definitions_page,
    "reference/metrics.md": metrics_page,
    "reference/events.md": events_page,
    "reference/diagnoses.md": diagnoses_page,
    "reference/annotations.md": annotations_page,
    "decisions/index.md": decisions_page,
    "parity/index.md": parity_page,
    **DIAGRAMS,
}
