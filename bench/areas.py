"""The areas of rows, in the order in which they are measured and stand in the table."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from bench.row import Row

#: Modules of bench.rows; what needs a quiet machine most comes first.
AREAS = ("cli", "local", "ping", "minion", "bus", "fleet", "files", "ssh", "swarm")


def rows_of(area: str) -> Sequence[Row]:
    """Return the rows of one area."""
    rows: Sequence[Row] = importlib.import_module(f"bench.rows.{area}").ROWS
    return rows
