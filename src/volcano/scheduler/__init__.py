"""Which pod goes where, and why not: sessions, actions and plugins."""
