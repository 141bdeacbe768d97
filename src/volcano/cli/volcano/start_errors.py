"""Reasons for which a cluster does not start, with what to do."""

import errno
import socket

from volcano.base.os_errors import explain_bind_error, explain_os_error
from volcano.embedded.kubeconfig import KubeconfigError
from volcano.embedded.options import ClusterOptions

_BINDING = (errno.EADDRINUSE, errno.EADDRNOTAVAIL)


def start_error(error: Exception, settings: ClusterOptions) -> str:
    """Message for an exception of `LocalCluster.start`."""
    if not isinstance(error, OSError) or isinstance(error, KubeconfigError):
        return str(error)
    if isinstance(error, socket.gaierror):
        return f"--host {settings.host}: no address of this host; choose one of its own, such as 127.0.0.1"
    if error.errno in _BINDING or (error.errno == errno.EACCES and not error.filename):
        return explain_bind_error(error, settings.host, settings.port)
    return explain_os_error(error, str(settings.directory))
