"""Generates ssh key pairs: RSA, 2048 bits, in formats that old and new ssh clients read."""

import threading
from collections import deque

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from volcano.controllers.job.plugins.plugin import KeyPair


def generate_key_pair() -> KeyPair:
    """Generates a key pair, which takes tens of milliseconds."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return KeyPair(private.decode(), public.decode() + "\n")


class KeyPool:
    """Key pairs generated ahead in a thread, since generating one would block the event loop.

    The thread starts with the first request and ends when the pool is full again.
    """

    def __init__(self, store: int = 8) -> None:
        self._store = store
        self._ready: deque[KeyPair] = deque()
        self._maker: threading.Thread | None = None

    def __call__(self) -> KeyPair | None:
        """A key pair that is returned only once, or None while the pool is empty."""
        pair = self._ready.popleft() if self._ready else None
        if self._maker is None or not self._maker.is_alive():
            self._maker = threading.Thread(target=self._fill_up, name="ssh keys", daemon=True)
            self._maker.start()
        return pair

    def _fill_up(self) -> None:
        while len(self._ready) < self._store:
            self._ready.append(generate_key_pair())
