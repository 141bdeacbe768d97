"""HTTP/1.1 server and connection pool, TLS and websockets."""
