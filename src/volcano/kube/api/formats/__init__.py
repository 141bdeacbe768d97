"""String formats of OpenAPI schemas and of names."""
