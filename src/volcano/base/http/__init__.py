"""HTTP/1.1 server and client over asyncio, with TLS, WebSocket and proxies."""
