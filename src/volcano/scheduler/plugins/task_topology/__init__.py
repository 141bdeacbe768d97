"""task_topology"""
