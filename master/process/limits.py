"""Limits of the operating system for the master's process."""

from __future__ import annotations

import resource

#: File descriptors needed for 10 000 connections and everything else.
OPEN_FILES = 65536


def raise_open_files() -> None:
    """Raise the limit of file descriptors to OPEN_FILES, as far as permitted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(OPEN_FILES, hard) if hard != resource.RLIM_INFINITY else OPEN_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
