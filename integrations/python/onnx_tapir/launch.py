"""Becomes the given command, which Linux then kills when its parent dies. Usage: launch.py PARENT COMMAND [ARGUMENT ...].

A script of its own because the alternative, code between fork and exec (``preexec_fn``), can deadlock in a process with
threads, and a Ray worker has dozens.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the parent is gone already")
    try:
        os.execvp(command[0], command)
    except OSError as error:
        hint = ""
        if isinstance(error, FileNotFoundError):
            hint = '; install it (npm install --global onnx-tapir), or say how to start it: tapir=["npx", "tapir"]'
        print(f"cannot start {command[0]}: {error.strerror}{hint}", file=sys.stderr)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main()
