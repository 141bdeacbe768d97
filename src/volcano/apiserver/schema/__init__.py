"""Types: structural schemas, CEL rules, validation and decoding."""
