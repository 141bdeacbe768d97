"""Accounting in a program: recording, budgets, metrics and answers."""
