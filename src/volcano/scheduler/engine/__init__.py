"""Scheduling engine: session, ledger, policy, placement and victim search."""
