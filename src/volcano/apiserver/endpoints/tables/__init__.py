"""Server-side printing: printer columns and print handlers of built-in kinds and of CRDs, as in kube-apiserver."""

from volcano.apiserver.endpoints.tables.builtin import printer_of
from volcano.apiserver.endpoints.tables.cells import Printer, human_duration
from volcano.apiserver.endpoints.tables.render import partial, table

__all__ = ["Printer", "human_duration", "partial", "printer_of", "table"]
