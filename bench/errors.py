"""Errors that explain a missing figure."""

from __future__ import annotations


class BenchError(Exception):
    """A measurement failed; the text is shown in its cell of the table."""


class NotHereError(BenchError):
    """The tool is not installed or lacks the feature; this is no failure."""
