"""exec, attach and port-forward over websocket and SPDY."""
