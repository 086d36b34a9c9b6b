"""archive.extracted: unpack an archive into a folder."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, LimitError, UsageError
from catena.core.frozen import dataclass, replace
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.archive import opened
from catena.modules.file import source as sources
from catena.modules.file.change import make_folders, remove_path
from catena.modules.shared import attributes
from catena.modules.shared.arguments import split, truth
from catena.modules.shared.attributes import Wanted
from catena.modules.shared.unpack import (
    Archive,
    Member,
    extract,
    members,
    top_level,
)
from catena.states.answers import done, failed, likely_typos, would
from catena.states.file.paths import absolute

_WITH_VALUE = ("--strip", "--strip-components", "--exclude")
#: Options of tar that are ignored because extraction always behaves as they ask.
_IDLE = (
    "--extract", "--get", "--verbose", "--gzip", "--bzip2", "--xz", "--auto-compress",
    "--same-owner", "--preserve-permissions", "--same-permissions", "--overwrite", "--wildcards",
    "--delay-directory-restore",
)  # fmt: skip
_ZIP_LETTERS = re.compile(r"-?[oqj]+\Z")
#: Short options of tar that are ignored because extraction always behaves as they ask.
_LETTERS = re.compile(r"-?[xvzjJapf]+\Z")


@dataclass(frozen=True)
class ExtractOptions:
    """Arguments of archive.extracted, with Salt's names and defaults."""

    source: Any = None
    source_hash: Any = ""
    source_hash_name: Optional[str] = None
    source_hash_update: bool = False
    skip_verify: bool = False
    password: Optional[str] = None
    options: Any = None
    list_options: Any = None
    force: bool = False
    overwrite: bool = False
    clean: bool = False
    clean_parent: bool = False
    user: Any = None
    group: Any = None
    if_missing: Optional[str] = None
    trim_output: Any = False
    use_cmd_unzip: Any = None
    extract_perms: bool = True
    enforce_toplevel: bool = True
    enforce_ownership_on: Optional[str] = None
    archive_format: Optional[str] = None
    keep_source: bool = True
    use_etag: bool = False
    saltenv: Optional[str] = None


@dataclass(frozen=True)
class _Work:
    """One archive and its target folder."""

    archive: Archive
    found: List[Member]
    target: Path
    #: The address as written in the state.
    source: str
    options: ExtractOptions
    #: Set the owners that the archive names, if this process may do so.
    keep_owner: bool = True

    @property
    def shown(self) -> str:
        """Return the target as messages show it."""
        return f"{self.target}/"


@dataclass(frozen=True)
class _TarOptions:
    """The options of tar or unzip that take effect here."""

    strip: int = 0
    exclude: Tuple[str, ...] = ()
    keep_owner: bool = True
    flat: bool = False


def _tar_options(options: Any, form: str) -> _TarOptions:
    """Return the options of archive.extracted.

    Raises:
        UsageError: an option is not supported.
    """
    if form == "zip":
        return _zip_options(options)
    found = _TarOptions()
    words = _words(options)
    while words:
        word, mark, value = words.pop(0).partition("=")
        if word in _WITH_VALUE and not mark and words:
            value = words.pop(0)
        if word in ("--strip", "--strip-components") and value.isdigit():
            found = replace(found, strip=int(value))
        elif word == "--exclude" and value:
            found = replace(found, exclude=(*found.exclude, value.rstrip("/")))
        elif word in ("--no-same-owner", "-o"):
            found = replace(found, keep_owner=False)
        elif word not in _IDLE and not _LETTERS.match(word):
            raise UsageError(f"archive.extracted does not know tar's option {word!r}")
    return found


def _zip_options(options: Any) -> _TarOptions:
    for word in _words(options):
        if not _ZIP_LETTERS.match(word):
            raise UsageError(f"archive.extracted does not know unzip's option {word!r}")
    return _TarOptions(flat=any("j" in word for word in _words(options)))


def _words(options: Any) -> List[str]:
    if isinstance(options, list):
        return [str(word) for word in options]
    return shlex.split(str(options or ""))


def _work(context: Context, target: Path, options: ExtractOptions) -> _Work:
    """Fetch and read the archive.

    Raises:
        CommandExecutionError: the archive is missing or can't be read.
        UsageError: the arguments make no sense.
    """
    base = sources.FileSource(
        "",
        options.saltenv or context.saltenv,
        str(options.source_hash or ""),
        options.source_hash_name,
        truth(options.skip_verify),
    )
    if isinstance(options.source, (list, tuple)):
        where = sources.first_of(context, list(options.source), base)
    else:
        text = str(options.source).replace("file://", "", 1)
        where = sources.FileSource(text, *_rest(base))
    archive = opened(
        context, where.location, options.archive_format, None, options.password, where
    )
    if options.password and archive.form != "zip":
        raise UsageError("The 'password' argument is only supported for zip archives")
    asked = _tar_options(options.options, archive.form)
    archive = replace(archive, strip=asked.strip, exclude=asked.exclude, flat=asked.flat)
    found = members(archive)
    return _Work(archive, found, target, where.location, options, asked.keep_owner)


def _rest(base: sources.FileSource) -> Tuple[str, str, Optional[str], bool]:
    return base.saltenv, base.source_hash, base.source_hash_name, base.skip_verify


def _bomb(work: _Work) -> str:
    """Return why the archive may not be extracted into the folder itself, or ""."""
    if not truth(work.options.enforce_toplevel) or work.archive.strip:
        return ""
    kinds = list(top_level(work.found).values())
    if len(kinds) == 1 and kinds[0] == "dir":
        return ""
    return (
        "Archive does not have a single top-level directory. To allow this archive to be "
        "extracted, set 'enforce_toplevel' to False, or give it a folder of its own, such as "
        f"name: {work.shown}some_dir"
    )


def _state_of(work: _Work) -> Tuple[List[str], List[str]]:
    """Return the paths that are missing, and the paths whose file type is another."""
    missing, other = [], []
    for member in work.found:
        path = work.target / member.path
        if not os.path.lexists(path):
            missing.append(member.path)
        elif (member.kind == "dir") != path.is_dir() and member.kind != "link":
            other.append(member.path)
    return missing, other


def _ownership(work: _Work, change: bool) -> List[str]:
    """Return the paths with another owner than wanted; with *change*, set the owner."""
    wanted = Wanted(work.options.user, work.options.group)
    if wanted.user is None and wanted.group is None:
        return []
    if work.options.enforce_ownership_on:
        top = absolute(work.options.enforce_ownership_on)
        paths = [top, *sorted(top.rglob("*"))] if top.is_dir() else [top]
    else:
        paths = [work.target / member.path for member in work.found]
    wrong = []
    for path in paths:
        if os.path.lexists(path) and attributes.differences(path, wanted, follow=False):
            wrong.append(str(path))
            if change:
                attributes.apply(path, wanted, follow=False)
    return wrong


def _cleared(work: _Work, others: List[str]) -> List[str]:
    """Remove what `clean` or `clean_parent` selects, else *others*; return the paths."""
    options = work.options
    gone = []
    if truth(options.clean_parent) and work.target.exists():
        gone.append(str(work.target))
    elif truth(options.clean):
        tops = [str(work.target / name) for name in top_level(work.found)]
        gone += [path for path in tops if os.path.lexists(path)]
    else:
        gone += [str(work.target / path) for path in others]
    shown = [f"{path}/" if Path(path).is_dir() else path for path in gone]
    for path in gone:
        remove_path(Path(path))
    return shown


def _extract(work: _Work, others: List[str], reason: str) -> StateResult:
    changes: Dict[str, Any] = {}
    gone = _cleared(work, others)
    if gone:
        changes["removed"] = gone
    new = make_folders(work.target, Wanted(work.options.user, work.options.group))
    if new:
        changes["directories_created"] = [work.shown]
    done_paths = extract(
        work.archive,
        work.target,
        work.keep_owner and os.geteuid() == 0,
        truth(work.options.extract_perms),
    )
    if work.options.options:
        # Folders end with a slash, as in tar's own listing.
        folders = {member.path for member in work.found if member.kind == "dir"}
        done_paths = [f"{path}/" if path in folders else path for path in done_paths]
    trim = work.options.trim_output
    limit = 100 if trim is True else int(trim) if trim else len(done_paths)
    changes["extracted_files"] = done_paths[:limit]
    if _ownership(work, change=True):
        changes["updated ownership"] = True
    comment = f"{work.source} extracted to {work.shown}, {reason}"
    if limit < len(done_paths):
        comment += f"; {limit} of {len(done_paths)} paths are shown"
    return done(comment, changes)


def _decide(context: Context, work: _Work) -> StateResult:
    refused = _bomb(work)
    if refused:
        return failed(refused)
    missing, others = _state_of(work)
    if others and not truth(work.options.force) and not truth(work.options.clean):
        named = ", ".join(others[:10])
        return failed(
            f"The archive's paths {named} are of another kind in {work.shown}; with 'force' they "
            "are replaced"
        )
    reason = ""
    if missing:
        reason = "due to absence of one or more files/dirs"
    elif others:
        reason = "due to incorrect types of one or more paths"
    elif truth(work.options.overwrite) or truth(work.options.clean):
        reason = "since it is to be overwritten"
    if reason and context.test:
        return would(f"Archive {work.source} would be extracted to {work.shown}, {reason}")
    if reason:
        return _extract(work, others, reason)
    wrong = _ownership(work, change=not context.test)
    if wrong:
        say = would if context.test else done
        verb = "would be" if context.test else "was"
        comment = f"Ownership of {len(wrong)} paths {verb} changed, {wrong[0]} first"
        return say(comment, {"updated ownership": True})
    return done("All files in archive are already present")


@state()
def extracted(context: Context, /, name: str, source: Any = None, **options: Any) -> StateResult:
    """Extract an archive into the folder *name*, unless its members exist there.

    Args:
        context: of the run.
        name: absolute path of the folder.
        source: address of the archive, or a list from which the first existing one is used.
        options: source_hash, skip_verify, archive_format, password, options (of tar:
            --strip-components), user, group, if_missing, enforce_toplevel, overwrite, clean,
            force, enforce_ownership_on, extract_perms, trim_output, … as in Salt.
    """
    chosen, rest = split(ExtractOptions, {**options, "source": source})
    warnings = likely_typos(ExtractOptions, rest, "archive.extracted")
    try:
        target = absolute(name)
        if not source:
            raise UsageError("archive.extracted needs a source")
        if chosen.if_missing and os.path.lexists(chosen.if_missing):
            return done(f"Path {chosen.if_missing} exists")
        if target.is_file():
            return failed(f"{name} exists and is a file; the archive needs a folder")
        problem = attributes.missing_account(Wanted(chosen.user, chosen.group))
        if problem and not context.test:
            return failed(problem)
        result = _decide(context, _work(context, target, chosen))
    except (CommandExecutionError, LimitError, UsageError) as refusal:
        return failed(str(refusal))
    return StateResult(result.result, result.changes, result.comment, warnings)
