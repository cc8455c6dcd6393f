"""What can go wrong with a tapir process."""

from __future__ import annotations



class TapirProcessError(RuntimeError):
    """The process ended, could not be started or sent what it should not. An image that cannot be read is a row instead.

    ``returncode`` is the process's exit code (negative: the signal that ended it; None where there was no process),
    ``stderr`` the end of what it wrote to standard error.
    """

    def __init__(self, message: str, returncode: int | None = None, stderr: str = "") -> None:
        super().__init__(message)
        self.returncode = returncode
        self.stderr = stderr

    def __reduce__(self):
        # Ray sends errors from worker to driver by pickle, which would keep the message alone.
        return type(self), (str(self), self.returncode, self.stderr)

    @property
    def is_final(self) -> bool:
        """Whether a fresh process would end in the same way: wrong flags, or no such command."""
        return self.returncode in (2, 126, 127)
