"""Scheduler: main loop, scheduling engine, actions, plugins, write-back and reports."""
