"""mount.*: states of mounted file systems, swap areas and lines of fstab."""

from __future__ import annotations

from catena.states.mount.lines import fstab_absent, fstab_present
from catena.states.mount.points import mod_watch, mounted_, unmounted
from catena.states.mount.swap import swap

__all__ = ["fstab_absent", "fstab_present", "mod_watch", "mounted_", "swap", "unmounted"]
