"""Shell completion: candidates, live names, scripts."""
