"""The installer: chart, single file, image."""
