"""Arguments of file.managed and of the states built on it."""

from __future__ import annotations

from typing import Any, Optional

from catena.core.frozen import dataclass


@dataclass(frozen=True)
class ManagedOptions:
    """Arguments of file.managed, with Salt's names and defaults."""

    source: Any = None
    source_hash: str = ""
    source_hash_name: Optional[str] = None
    keep_source: bool = True
    user: Any = None
    group: Any = None
    mode: Any = None
    attrs: Any = None
    template: Optional[str] = None
    makedirs: bool = False
    dir_mode: Any = None
    context: Any = None
    defaults: Any = None
    replace: bool = True
    backup: Any = ""
    create: bool = True
    contents: Any = None
    contents_pillar: Any = None
    contents_grains: Any = None
    contents_newline: bool = True
    contents_delimiter: str = ":"
    allow_empty: bool = True
    show_changes: bool = True
    show_diff: Optional[bool] = None
    new_file_diff: bool = False
    follow_symlinks: bool = True
    check_cmd: Any = None
    tmp_dir: Optional[str] = ""
    tmp_ext: str = ""
    skip_verify: bool = False
    selinux: Any = None
    encoding: Optional[str] = None
    encoding_errors: str = "strict"
    saltenv: Optional[str] = None
    verify_ssl: bool = True
    use_etag: bool = False
    #: Arguments for other operating systems, without effect here.
    win_owner: Any = None
    win_perms: Any = None
    win_deny_perms: Any = None
    win_inheritance: Any = None
    win_perms_reset: Any = None

    @property
    def has_source(self) -> bool:
        """Whether the content comes from a source; an empty list counts, and no source exists."""
        return self.source not in (None, "")
