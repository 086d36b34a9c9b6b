"""The master's log: one line per record, without control characters."""

from __future__ import annotations

import logging
import os
import sys
import time
from io import TextIOWrapper
from pathlib import Path

from catena.core.errors import ConfigError
from catena.core.files import SpecialFileError, open_log
from catena.core.log_lines import LineFormatter

_LEVELS = {
    "error": logging.ERROR,
    "warning": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
}


class LogFile(logging.FileHandler):
    """Appends to a file of mode 0600, and reopens it after another program has rotated it.

    The standard library's WatchedFileHandler raises in the calling code if the file cannot be
    reopened; this one continues with the open file.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write *record* to the file that is now at the log's path."""
        if self._was_rotated():
            self.reopen()
        super().emit(record)

    def reopen(self) -> None:
        """Open the file at the log's path; keep the old one if that fails."""
        try:
            fresh = self._open()
        except (OSError, SpecialFileError):
            return
        old = self.setStream(fresh)
        if old is not None:
            old.close()

    def _was_rotated(self) -> bool:
        if self.stream is None:
            return True
        try:
            there, mine = Path(self.baseFilename).stat(), os.fstat(self.stream.fileno())
        except OSError:
            return True
        return not os.path.samestat(there, mine)

    def _open(self) -> TextIOWrapper:
        handle = open_log(self.baseFilename)
        return os.fdopen(handle, "a", encoding="utf-8", errors="backslashreplace")


def reopen() -> bool:
    """Reopen the log's file; return False if the log goes to stderr."""
    files = [h for h in logging.getLogger().handlers if isinstance(h, LogFile)]
    for file in files:
        file.reopen()
    return bool(files)


def set_up(log_file: str, level: str) -> None:
    """Send the log to *log_file* ("-": stderr); the file is made with mode 0600.

    Raises:
        ConfigError: *log_file* is a pipe, a socket or a block device.
    """
    handler: logging.Handler
    if log_file == "-":
        handler = logging.StreamHandler(sys.stderr)
    else:
        path = Path(log_file)
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        try:
            handler = LogFile(path)
        except SpecialFileError as error:
            raise ConfigError(f"log_file: {error}", "log_file") from None
    form = LineFormatter(
        "%(asctime)s.%(msecs)03dZ %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S"
    )
    # UTC, like the minions' logs and the events, because hosts may be in several time zones.
    form.converter = time.gmtime
    handler.setFormatter(form)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(_LEVELS[level])
    # At INFO, Alembic logs every start.
    logging.getLogger("alembic").setLevel(max(_LEVELS[level], logging.WARNING))
