"""temp.*: temporary files and folders."""

from __future__ import annotations

import os
import tempfile
from typing import Optional

from catena.core.context import Context
from catena.core.plugins import function


@function(name="dir")
def dir_(
    context: Context, suffix: str = "", prefix: str = "tmp", parent: Optional[str] = None
) -> str:
    """Create a folder that only this user may enter, and return its path."""
    return tempfile.mkdtemp(str(suffix), str(prefix), parent)


@function()
def file(
    context: Context, suffix: str = "", prefix: str = "tmp", parent: Optional[str] = None
) -> str:
    """Create an empty file that only this user may read, and return its path."""
    handle, path = tempfile.mkstemp(str(suffix), str(prefix), parent)
    os.close(handle)
    return path
