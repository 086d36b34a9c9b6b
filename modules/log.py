"""log.*: write to the log of the job, for templates."""

from __future__ import annotations

import logging
from typing import Any

from catena.core.context import Context
from catena.core.plugins import function

log = logging.getLogger(__name__)


def _said(level: int, message: Any) -> bool:
    # Escape carriage returns, with which a template could forge log lines.
    log.log(level, "%s", str(message).replace("\r", "\\r"))
    return True


@function(reads=True)
def debug(context: Context, message: Any) -> bool:
    """Log at level debug; return True."""
    return _said(logging.DEBUG, message)


@function(reads=True)
def info(context: Context, message: Any) -> bool:
    """Log at level info; return True."""
    return _said(logging.INFO, message)


@function(reads=True)
def warning(context: Context, message: Any) -> bool:
    """Log at level warning; return True."""
    return _said(logging.WARNING, message)


@function(reads=True)
def error(context: Context, message: Any) -> bool:
    """Log at level error; return True."""
    return _said(logging.ERROR, message)


@function(reads=True)
def critical(context: Context, message: Any) -> bool:
    """Log at level critical; return True."""
    return _said(logging.CRITICAL, message)


@function(reads=True)
def exception(context: Context, message: Any) -> bool:
    """Log at level error; return True."""
    return _said(logging.ERROR, message)
