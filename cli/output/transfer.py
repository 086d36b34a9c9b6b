"""Uploads a file to the master, with a progress bar on a terminal if the file is large."""

from __future__ import annotations

from pathlib import Path

from catena.cli.output.text import printable
from catena.cli.output.views import is_live
from catena.client.connection import MasterClient

#: File size in bytes from which a progress bar is shown.
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
