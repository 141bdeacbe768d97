"""What is wrong with a manifest, kind by kind, in the words and with the field paths of a real API server."""
