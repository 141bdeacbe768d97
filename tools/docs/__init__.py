"""Reference pages of the documentation site, generated from the code."""
