"""CEL, the Common Expression Language: parser, type checker, cost limits and evaluation.

Written for Kubernetes' dialect, because no library counts cost while it evaluates (docs/decisions/0025).
"""
