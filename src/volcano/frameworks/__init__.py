"""Frameworks that run in pods of process runtimes: recipes, their cache and their installation."""
