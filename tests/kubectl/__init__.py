"""The real kubectl against our API server."""
