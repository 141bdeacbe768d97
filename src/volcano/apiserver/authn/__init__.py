"""Authentication: bearer tokens, client certificates, service account tokens."""
