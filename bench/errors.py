"""Why there is no figure."""

from __future__ import annotations


class BenchError(Exception):
    """A measurement could not be made; the text stands in its cell of the table."""


class NotHereError(BenchError):
    """The tool is not installed, or has no such thing: the cell says so, nothing has failed."""
