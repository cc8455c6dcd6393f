"""What can go wrong. An image that cannot be read is none of these: it is a row."""

from __future__ import annotations

import re


class TapirError(RuntimeError):
    """The command, its version, the model or an argument is wrong."""

    #: tapir's own code of the error (docs/errors.md), such as ``MODEL_UNREADABLE``; None if there is none.
    code: str | None = None
    #: Whether a fresh process would end in the same way.
    is_final: bool = True


class TapirVersionError(TapirError):
    """The Node package and this package do not fit each other."""


class TapirProcessError(TapirError):
    """The process ended, could not be started or sent what it should not.

    ``returncode`` is the process's exit code (negative: the signal that ended it; None where there was no process),
    ``stderr`` the end of what it wrote to standard error.
    """

    def __init__(self, message: str, returncode: int | None = None, stderr: str = "") -> None:
        super().__init__(message)
        self.returncode = returncode
        self.stderr = stderr
        # Its last line: `tapir: there is no file "m.onnx" [MODEL_UNREADABLE]`.
        stated = re.search(r"\[([A-Z][A-Z0-9_]+)\]\s*$", stderr)
        self.code = stated[1] if stated else None
        #: Wrong flags, or no such command.
        self.is_final = returncode in (2, 126, 127)

    def __reduce__(self):
        # Engines send errors from worker to driver by pickle, which would keep the message alone.
        return type(self), (str(self), self.returncode, self.stderr)
