"""Schemas: OpenAPI, structural schemas, CEL validation rules, validation and decoding."""
