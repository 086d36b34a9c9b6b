"""cp.*: copy files of the file server to this host."""

from __future__ import annotations

import filecmp
import hashlib
import os
import shutil
from pathlib import Path, PurePosixPath
from typing import Any, Dict, List, Mapping, Optional, Tuple
from urllib.parse import parse_qs, urlsplit

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.files import write_all, write_durable
from catena.core.plugins import function
from catena.modules.file.content import write_by
from catena.modules.file.source import FileSource, fetch
from catena.modules.file.source import hash_file as hash_of
from catena.runtime.functions.cp_push import push as push
from catena.runtime.functions.cp_push import push_dir as push_dir

_SCHEME = "salt://"
#: Mode of a new file; an existing file keeps its mode.
_MODE = "0644"
_BLOCK = 1024 * 1024


def _split(path: str, saltenv: Optional[str], context: Context) -> Tuple[str, str]:
    """Return (path below the root, environment) of a salt:// address."""
    if not path.startswith(_SCHEME):
        raise UsageError(f"{path[:200]!r} is not a salt:// address")
    bare, _, query = path[len(_SCHEME) :].partition("?")
    named = parse_qs(query).get("saltenv", [""])[0]
    parts = PurePosixPath(bare.strip("/")).parts
    if ".." in parts:
        raise UsageError(f"{path[:200]!r} leaves the file roots")
    return "/".join(parts), named or saltenv or context.saltenv


def _fetch(context: Context, path: str, saltenv: Optional[str]) -> Optional[Path]:
    name, environment = _split(path, saltenv, context)
    return context.files.fetch(name, environment)


def _is_outside(dest: str) -> None:
    if not Path(dest).is_absolute():
        raise UsageError(f"{dest[:200]!r} must be an absolute path")


def _place(local: Path, dest: str, source: str, makedirs: bool) -> str:
    """Copy a fetched file to *dest*, durably; return its path, "" if the folder is missing."""
    target = _target(dest, source, makedirs)
    if target is None:
        return ""
    if not (target.is_file() and filecmp.cmp(local, target, shallow=False)):
        write_by(target, lambda handle: _copy(local, handle), _MODE)
    return str(target)


def _target(dest: str, source: str, makedirs: bool) -> Optional[Path]:
    """Return the path to write: *dest*, or *source*'s name in it if *dest* is a folder.

    None means that the parent folder is missing.
    """
    target = Path(dest)
    if dest.endswith("/") or target.is_dir():
        target = target / PurePosixPath(source).name
    if makedirs:
        target.parent.mkdir(parents=True, exist_ok=True)
    return target if target.parent.is_dir() else None


def _copy(local: Path, handle: int) -> None:
    with local.open("rb") as stream:
        for block in iter(lambda: stream.read(_BLOCK), b""):
            write_all(handle, block)


def _bring(context: Context, path: str, saltenv: Optional[str], dest: str, makedirs: bool) -> str:
    """Copy a file of the file server to *dest*; return its path, "" if there is no such file.

    A large file is written to *dest* directly, as in Salt, so it does not use space in the cache.
    """
    name, environment = _split(path, saltenv, context)
    far = context.files.distant(name, environment)
    if far is None:
        local = context.files.fetch(name, environment)
        return _place(local, dest, path, makedirs) if local else ""
    target = _target(dest, path, makedirs)
    if target is None:
        return ""
    same = target.is_file() and target.stat().st_size == far.entry.size
    if not (same and hash_of(target) == far.entry.sha256):
        write_by(target, far.write_to, _MODE)
    return str(target)


@function()
def get_file(
    context: Context,
    /,
    path: str,
    dest: str,
    saltenv: Optional[str] = None,
    makedirs: bool = False,
    template: Optional[str] = None,
    gzip: Any = None,
    **kwargs: Any,
) -> str:
    """Copy a file of the file server to *dest*.

    Args:
        context: the call's context.
        path: salt:// address; with *template*, a template of it.
        dest: absolute path of the target file, or of the folder to copy into.
        saltenv: environment.
        makedirs: create missing folders.
        template: engine that renders *path* and *dest* first, such as "jinja".
        gzip: accepted and ignored; files are always sent in hash-checked chunks.
        kwargs: variables of the template.

    Returns:
        Path of the file; "" if the file or the target folder does not exist.
    """
    if template:
        path, dest = (
            _rendered(context, template, kwargs, path),
            _rendered(context, template, kwargs, dest),
        )
    _is_outside(dest)
    return _bring(context, path, saltenv, dest, makedirs)


def _rendered(context: Context, engine: str, variables: Dict[str, Any], text: str) -> str:
    from catena.renderers.templates import render_file

    return render_file(context, text, engine, variables).strip()


@function()
def get_template(
    context: Context,
    /,
    path: str,
    dest: str,
    template: str = "jinja",
    saltenv: Optional[str] = None,
    makedirs: bool = False,
    **kwargs: Any,
) -> str:
    """Render a file of the file server to *dest*.

    Args:
        context: the call's context.
        path: salt:// address.
        dest: absolute path of the target file.
        template: template engine.
        saltenv: environment.
        makedirs: create missing folders.
        kwargs: variables of the template; those of the mapping `context` have precedence.

    Returns:
        Path of the file; "" if the source does not exist.

    Raises:
        CommandExecutionError: the folder of *dest* is missing.
        UsageError: `context` is not a mapping.
    """
    from catena.renderers.templates import render_file

    _is_outside(dest)
    local = _fetch(context, path, saltenv)
    if local is None:
        return ""
    given = kwargs.pop("context", None)
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(f"cp.get_template: context is a mapping of names, not {given!r}")
    variables = {**kwargs, **(given or {})}
    target = _target(dest, path, makedirs)
    if target is None:
        folder = Path(dest).parent
        raise CommandExecutionError(f"{folder}: no such folder; makedirs=True creates it")
    text = render_file(context, local.read_text(encoding="utf-8"), template, variables)
    write_durable(target, text.encode("utf-8"), 0o644)
    return str(target)


@function()
def get_dir(
    context: Context,
    /,
    path: str,
    dest: str,
    saltenv: Optional[str] = None,
    template: Optional[str] = None,
    gzip: Any = None,
    **kwargs: Any,
) -> List[str]:
    """Copy a folder of the file server into the folder *dest*.

    Args:
        context: the call's context.
        path: salt:// address of the folder.
        dest: absolute path of the folder to copy into.
        saltenv: environment.
        template: accepted and ignored.
        gzip: accepted and ignored.
        kwargs: accepted and ignored.

    Returns:
        Paths of the copied files.
    """
    _is_outside(dest)
    name, environment = _split(path, saltenv, context)
    above = name.rpartition("/")[0]
    found = []
    entries = context.files.entries(environment, name + "/" if name else "")
    paths = [entry.path for entry in entries]
    for source, local in zip(paths, context.files.fetch_all(paths, environment)):
        if local is not None:
            relative = source[len(above) :].lstrip("/")
            found.append(_place(local, str(Path(dest) / relative), source, True))
    return found


@function(reads=True)
def get_file_str(context: Context, path: str, saltenv: Optional[str] = None) -> Any:
    """Return the text of a file of the file server or of this host; False if it is missing."""
    local = _fetch_any(context, path, saltenv)
    return local.read_text(encoding="utf-8", errors="replace") if local else False


@function()
def get_url(
    context: Context,
    /,
    path: str,
    dest: Optional[str] = "",
    saltenv: Optional[str] = None,
    makedirs: bool = False,
    source_hash: Optional[str] = None,
    **kwargs: Any,
) -> Any:
    """Copy a file from a salt://, file:// or http(s):// address, or a local path, to *dest*.

    Args:
        context: the call's context.
        path: address or path of the source.
        dest: absolute path; "": copy into the cache; None: return the text.
        saltenv: environment.
        makedirs: create missing folders.
        source_hash: hash of an http(s):// file; salt:// content is always checked.
        kwargs: accepted and ignored.

    Returns:
        Path of the copy, or the text; False if the source does not exist.

    Raises:
        UsageError: the address has another scheme.
    """
    if dest and path.startswith(_SCHEME):
        return _bring(context, path, saltenv, dest, makedirs) or False
    local = _fetch_any(context, path, saltenv, source_hash)
    if local is None:
        return False
    if dest is None:
        return local.read_text(encoding="utf-8", errors="replace")
    return _place(local, dest, path, makedirs) if dest else str(local)


def _fetch_any(
    context: Context, path: str, saltenv: Optional[str], source_hash: Optional[str] = None
) -> Optional[Path]:
    """Return a local file with the content of an address or path; None if it does not exist.

    Raises:
        UsageError: the address has another scheme.
        CommandExecutionError: the download failed, or the file has another hash.
    """
    scheme = urlsplit(path).scheme
    if scheme in ("http", "https"):
        wanted = FileSource(path, source_hash=source_hash or "", skip_verify=not source_hash)
        return fetch(context, wanted)
    if scheme == "salt":
        return _fetch(context, path, saltenv)
    if scheme not in ("file", ""):
        raise UsageError(
            f"{scheme}:// is not supported; salt://, file://, http(s):// and paths are"
        )
    local = Path(urlsplit(path).path if scheme else path)
    return local if local.is_file() else None


@function(reads=True)
def cache_file(
    context: Context,
    /,
    path: str,
    saltenv: Optional[str] = None,
    source_hash: Optional[str] = None,
    **kwargs: Any,
) -> Any:
    """Fetch a file into the cache; return its path there, or False if there is no such file.

    Args:
        context: the call's context.
        path: salt:// address; a local path is returned unchanged.
        saltenv: environment.
        source_hash: accepted and ignored; content is always checked.
        kwargs: accepted and ignored.
    """
    if not path.startswith(_SCHEME):
        return path if Path(path).is_file() else False
    local = _fetch(context, path, saltenv)
    return str(local) if local else False


@function(reads=True)
def cache_files(context: Context, paths: Any, saltenv: Optional[str] = None) -> List[Any]:
    """Fetch several files into the cache; return the results of cp.cache_file.

    Args:
        context: the call's context.
        paths: salt:// addresses: a list, or one text separated by commas.
        saltenv: environment.
    """
    names = paths.split(",") if isinstance(paths, str) else list(paths)
    return [cache_file(context, name, saltenv) for name in names]


@function(reads=True)
def cache_dir(
    context: Context,
    path: str,
    saltenv: Optional[str] = None,
    include_empty: bool = False,
    include_pat: Optional[str] = None,
    exclude_pat: Optional[str] = None,
) -> List[str]:
    """Fetch a folder into the cache; return the paths of its files there.

    Args:
        context: the call's context.
        path: salt:// address of the folder.
        saltenv: environment.
        include_empty: accepted and ignored.
        include_pat: fetch only files whose path matches this glob, or `E@` and a regular
            expression.
        exclude_pat: skip files whose path matches this pattern; same syntax.
    """
    name, environment = _split(path, saltenv, context)
    wanted = []
    for entry in context.files.entries(environment, name + "/" if name else ""):
        relative = entry.path[len(name) :].lstrip("/")
        if include_pat and not _matches(include_pat, relative):
            continue
        if exclude_pat and _matches(exclude_pat, relative):
            continue
        wanted.append(entry.path)
    return [str(local) for local in context.files.fetch_all(wanted, environment) if local]


def _matches(pattern: str, path: str) -> bool:
    import fnmatch
    import re

    if pattern.startswith("E@"):
        return re.search(pattern[2:], path) is not None
    return fnmatch.fnmatchcase(path, pattern)


@function(reads=True)
def cache_master(context: Context, saltenv: Optional[str] = None) -> List[str]:
    """Fetch all files of an environment into the cache; return their paths there."""
    return list(cache_dir(context, _SCHEME, saltenv))


@function(reads=True)
def is_cached(context: Context, path: str, saltenv: Optional[str] = None) -> str:
    """Return the path of a file in the cache; fetch it if missing. "" if there is no such file."""
    local = _fetch(context, path, saltenv)
    return str(local) if local else ""


@function(reads=True)
def hash_file(context: Context, path: str, saltenv: Optional[str] = None) -> Dict[str, str]:
    """Return {"hsum", "hash_type"} of a file server or local file; {} if it does not exist."""
    if not path.startswith(_SCHEME):
        local = Path(path)
        if not local.is_file():
            return {}
        return {"hsum": hashlib.sha256(local.read_bytes()).hexdigest(), "hash_type": "sha256"}
    name, environment = _split(path, saltenv, context)
    entry = context.files.entry(name, environment)
    return {"hsum": entry.sha256, "hash_type": "sha256"} if entry else {}


@function(reads=True)
def stat_file(
    context: Context, path: str, saltenv: Optional[str] = None, octal: bool = True
) -> Optional[str]:
    """Return the mode of a file of the file server ("0644"); None if there is no such file.

    Args:
        context: the call's context.
        path: salt:// address.
        saltenv: environment.
        octal: accepted and ignored; the mode is always octal.
    """
    name, environment = _split(path, saltenv, context)
    entry = context.files.entry(name, environment)
    return f"{entry.mode & 0o7777:04o}" if entry else None


@function(reads=True)
def list_master(context: Context, saltenv: Optional[str] = None, prefix: str = "") -> List[str]:
    """Return the paths of all files of an environment, sorted."""
    return [e.path for e in context.files.entries(saltenv or context.saltenv, prefix)]


@function(reads=True)
def list_master_dirs(
    context: Context, saltenv: Optional[str] = None, prefix: str = ""
) -> List[str]:
    """Return the folders of an environment, sorted."""
    return context.files.folders(saltenv or context.saltenv, prefix)


@function(reads=True)
def list_master_symlinks(
    context: Context, saltenv: Optional[str] = None, prefix: str = ""
) -> Dict[str, str]:
    """Return the symbolic links of an environment: path -> target."""
    entries = context.files.entries(saltenv or context.saltenv, prefix)
    return {entry.path: entry.link for entry in entries if entry.link}


@function(reads=True)
def list_states(context: Context, saltenv: Optional[str] = None) -> List[str]:
    """Return the SLS names of an environment, sorted."""
    found = []
    for entry in context.files.entries(saltenv or context.saltenv):
        if entry.path.endswith(".sls"):
            name = entry.path[: -len(".sls")].replace("/", ".")
            found.append(name[: -len(".init")] if name.endswith(".init") else name)
    return sorted(found)


@function(reads=True)
def list_minion(context: Context, saltenv: Optional[str] = None) -> List[str]:
    """Return the paths of all files of an environment that this host can fetch; sorted."""
    return list(list_master(context, saltenv))


@function(reads=True)
def envs(context: Context) -> List[str]:
    """Return the environments of the file server."""
    return context.files.environments()


@function()
def cache_local_file(context: Context, path: str) -> str:
    """Copy a file of this host into the cache; return the path of the copy.

    Raises:
        CommandExecutionError: there is no such file.
    """
    source = Path(path)
    if not source.is_file():
        raise CommandExecutionError(f"{path[:200]}: no such file")
    target = context.host.cache_dir / "localfiles" / os.path.relpath(source.resolve(), "/")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return str(target)
