"""Whether this machine lets a shim be netns or userns, found out by trying: exits 0, or says what was refused."""

import os
import sys

from volcano.nodes.shim.isolation import entering, network
from volcano.nodes.shim.specs import Failure, Mode


def main() -> None:
    """Everything made here ends with this process."""
    try:
        entering.enter(Mode(sys.argv[1]))
        entering.enter_network()
        network.Hub().build()
    except (OSError, Failure) as error:
        os.write(2, f"{error}\n".encode())
        sys.exit(1)


if __name__ == "__main__":
    main()
