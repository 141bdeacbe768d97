"""The web dashboard: pages of a cluster in a browser, with the permissions of each viewer."""
