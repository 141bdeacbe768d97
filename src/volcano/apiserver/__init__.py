"""A store that behaves like Kubernetes, and the HTTP surface kubectl talks to."""
