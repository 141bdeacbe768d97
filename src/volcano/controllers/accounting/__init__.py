"""Accounting controllers: the recorder of pod runs, and budgets of queues."""
