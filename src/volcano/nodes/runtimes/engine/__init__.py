"""Container engines (podman, docker) driven through their command line."""
