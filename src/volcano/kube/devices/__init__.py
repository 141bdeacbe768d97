"""Text formats shared with device plugins: registrations of nodes and assignments of pods."""
