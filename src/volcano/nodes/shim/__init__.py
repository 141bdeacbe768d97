"""The shim: a small process that starts containers, writes their logs and survives a restart of `volcano`."""
