"""What kubectl prints: objects as rows of cells, with the columns a real server gives."""

from volcano.apiserver.endpoints.tables.builtin import printer_of
from volcano.apiserver.endpoints.tables.reading import Printer, human_duration
from volcano.apiserver.endpoints.tables.render import partial, table

__all__ = ["Printer", "human_duration", "partial", "printer_of", "table"]
