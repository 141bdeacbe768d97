"""Ways of running containers on this host; each is a `Runtime`."""
