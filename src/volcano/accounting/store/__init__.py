"""The accounting database and the queries on it."""
