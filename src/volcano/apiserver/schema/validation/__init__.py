"""Validation of built-in kinds, with the error messages and field paths of kube-apiserver."""
