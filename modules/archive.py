"""archive.*: list, extract and create archives."""

from __future__ import annotations

import gzip as gzip_format
import shutil
import zipfile
from pathlib import Path
from typing import Any, List, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.file import source
from catena.modules.shared.arguments import listed, truth
from catena.modules.shared.command.options import RunOptions
from catena.modules.shared.command.run import run as run_command
from catena.modules.shared.unpack import (
    Archive,
    by_kind,
    checked_form,
    extract,
    form_of,
    members,
)


def opened(
    context: Context,
    name: str,
    form: Optional[str] = None,
    strip: Optional[int] = None,
    password: Optional[str] = None,
    where: Optional[source.FileSource] = None,
) -> Archive:
    """Return the archive at *name*; fetch it if it is remote.

    Args:
        context: the call's context.
        name: absolute path, salt:// or http(s) address.
        form: "tar" or "zip"; None: by the name.
        strip: number of leading path components to drop.
        password: of a zip file.
        where: how to fetch and check the archive.

    Raises:
        CommandExecutionError: the archive does not exist, or its hash is wrong.
        UsageError: the form is unknown or not supported.
    """
    chosen = form or form_of(name)
    if not chosen:
        raise UsageError(
            f"Could not guess archive_format from {name!r}; set it to one of: tar, zip"
        )
    found = source.fetch(context, where or source.FileSource(name, context.saltenv))
    if found is None:
        raise CommandExecutionError(f"Source file '{name}' does not exist")
    return Archive(found, checked_form(chosen.lower()), int(strip or 0), password)


@function(name="list", reads=True)
def list_(
    context: Context,
    name: str,
    archive_format: Optional[str] = None,
    options: Optional[str] = None,
    strip_components: Optional[int] = None,
    clean: bool = False,
    verbose: bool = False,
    saltenv: Optional[str] = None,
    source_hash: Optional[str] = None,
) -> Any:
    """Return the paths in an archive; with *verbose*, by kind and with the top-level ones."""
    where = source.FileSource(name, saltenv or context.saltenv, source_hash or "",
                          skip_verify=not source_hash)  # fmt: skip
    found = members(opened(context, name, archive_format, strip_components, where=where))
    if truth(verbose):
        return dict(by_kind(found))
    return sorted(f"{member.path}/" if member.kind == "dir" else member.path for member in found)


@function()
def unzip(
    context: Context,
    zip_file: str,
    dest: str,
    excludes: Any = None,
    options: Optional[str] = None,
    trim_output: Any = False,
    password: Optional[str] = None,
    extract_perms: bool = True,
) -> List[str]:
    """Extract a zip file into *dest*; return the paths of its members.

    Raises:
        CommandExecutionError: the file can't be read, or a member can't be written.
        UsageError: *excludes* is given, which is not supported.
    """
    return _extracted(context, zip_file, "zip", dest, password, truth(extract_perms), excludes)


def _extracted(
    context: Context, name: str, form: str, dest: str, password: Optional[str], perms: bool,
    excludes: Any,
) -> List[str]:  # fmt: skip
    if excludes:
        raise UsageError("excludes can't be had; extract all and remove them")
    archive = opened(context, name, form, password=password)
    target = Path(dest)
    target.mkdir(parents=True, exist_ok=True)
    return extract(archive, target, keep_owner=False, keep_mode=perms)


@function(name="cmd_unzip")
def cmd_unzip(
    context: Context,
    zip_file: str,
    dest: str,
    excludes: Any = None,
    options: Optional[str] = None,
    trim_output: Any = False,
    password: Optional[str] = None,
) -> List[str]:
    """Extract a zip file into *dest*, like archive.unzip."""
    return _extracted(context, zip_file, "zip", dest, password, True, excludes)


@function(name="zip")
def zip_(
    context: Context,
    zip_file: str,
    sources: Any,
    cwd: Optional[str] = None,
    runas: Optional[str] = None,
    zip64: bool = False,
) -> List[str]:
    """Pack files and folders into a zip file; return their names in it."""
    packed = []
    with zipfile.ZipFile(zip_file, "w", zipfile.ZIP_DEFLATED) as pack:
        for path, inside in _sources(sources, cwd):
            for each in [path, *sorted(path.rglob("*"))] if path.is_dir() else [path]:
                label = str(Path(inside) / each.relative_to(path)) if each != path else inside
                pack.write(each, label)
                packed.append(label)
    return packed


def _sources(sources: Any, cwd: Optional[str]) -> List[Tuple[Path, str]]:
    """Return (path, name in the archive) of the files to pack.

    Raises:
        CommandExecutionError: something is not there.
    """
    found = []
    for each in listed(sources):
        path = Path(cwd, str(each)) if cwd else Path(str(each))
        if not path.exists():
            raise CommandExecutionError(f"{path} does not exist")
        found.append((path, str(each).lstrip("/") if cwd else path.name))
    return found


@function()
def tar(
    context: Context,
    options: str,
    tarfile: str,
    sources: Any = None,
    dest: Optional[str] = None,
    cwd: Optional[str] = None,
    template: Optional[str] = None,
    runas: Optional[str] = None,
) -> List[str]:
    """Run the program tar with these options; return the lines that it printed.

    Raises:
        CommandExecutionError: it failed.
    """
    words = ["tar", f"-{options.lstrip('-')}", tarfile] if options else ["tar", tarfile]
    words += ["-C", dest] if dest else []
    # A file name must not be read as an option: --checkpoint-action runs commands.
    words += ["--", *(str(each) for each in listed(sources))] if sources else []
    ran = run_command(context, words, RunOptions(cwd=cwd, runas=runas, python_shell=False))
    if ran.retcode:
        raise CommandExecutionError(ran.stderr or f"tar ended with {ran.retcode}")
    return ran.stdout.splitlines()


@function()
def gzip(context: Context, sourcefile: str) -> List[str]:
    """Compress a file to FILE.gz, which replaces it."""
    path, packed = Path(sourcefile), Path(f"{sourcefile}.gz")
    with path.open("rb") as plain, gzip_format.open(packed, "wb") as stream:
        shutil.copyfileobj(plain, stream)
    shutil.copystat(path, packed)
    path.unlink()
    return []


@function()
def gunzip(context: Context, gzipfile: str) -> List[str]:
    """Decompress FILE.gz to FILE, which replaces it.

    Raises:
        UsageError: the name does not end in .gz.
    """
    packed = Path(gzipfile)
    if packed.suffix != ".gz":
        raise UsageError(f"{gzipfile} does not end in .gz")
    plain = packed.with_suffix("")
    with gzip_format.open(packed, "rb") as stream, plain.open("wb") as out:
        shutil.copyfileobj(stream, out)
    shutil.copystat(packed, plain)
    packed.unlink()
    return []


@function(reads=True)
def is_encrypted(
    context: Context, name: str, clean: bool = False, saltenv: Optional[str] = None
) -> bool:
    """Return whether a zip file needs a password.

    Raises:
        CommandExecutionError: it is not there, or no zip file.
    """
    archive = opened(context, name, "zip")
    try:
        with zipfile.ZipFile(archive.file) as pack:
            return any(info.flag_bits & 1 for info in pack.infolist())
    except zipfile.BadZipFile as problem:
        raise CommandExecutionError(f"{name}: {problem}") from problem
