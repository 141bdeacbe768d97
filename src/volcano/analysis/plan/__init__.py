"""Plans and suggestions: changes that are verified by a re-run."""
