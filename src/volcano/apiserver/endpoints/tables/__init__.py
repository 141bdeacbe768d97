"""Server-side printing: printer columns and print handlers of built-in kinds and of CRDs, as in kube-apiserver."""

from volcano.apiserver.endpoints.tables.builtin import printer_of
from volcano.apiserver.endpoints.tables.cells import Printer
from volcano.apiserver.endpoints.tables.render import partial, table
from volcano.kube.api.duration import human_duration

__all__ = ["Printer", "human_duration", "partial", "printer_of", "table"]
