"""The areas of rows, in the order of measurement and of the table."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from bench.row import Row

#: Modules of bench.rows; those that need a quiet machine most come first.
AREAS = ("cli", "local", "system", "ping", "minion", "bus", "fleet", "files", "ssh", "swarm")


def rows_of(area: str) -> Sequence[Row]:
    """Return the rows of one area."""
    rows: Sequence[Row] = importlib.import_module(f"bench.rows.{area}").ROWS
    return rows
