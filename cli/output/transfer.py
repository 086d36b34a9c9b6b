"""Sends a file to the master; of a large one a terminal shows how far it is."""

from __future__ import annotations

from pathlib import Path

from catena.cli.output.text import printable
from catena.cli.output.views import is_live
from catena.client.connection import MasterClient

#: From this size on a transfer has a progress bar: what is smaller is there at once.
LARGE_BYTES = 8 * 1024 * 1024


def upload(client: MasterClient, path: Path, content: bytes) -> str:
    """Send *content*, the bytes of *path*, to the master; return its SHA-256."""
    if len(content) < LARGE_BYTES or not is_live():
        return client.upload(content)
    try:
        from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn
        from rich.text import Text
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "rich":
            raise
        return client.upload(content)
    columns = (BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn())
    with Progress(*columns, transient=True) as progress:
        progress.console.print(Text(f"sending {printable(path.name)}"))
        task = progress.add_task("", total=len(content))
        return client.upload(content, lambda sent: progress.update(task, completed=sent))
