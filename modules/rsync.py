"""rsync.*: copy folders, locally or over the network."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, fields, replace
from catena.core.plugins import function
from catena.modules.shared import programs
from catena.modules.shared.arguments import listed, take, truth
from catena.modules.shared.locations import split_location

#: Seconds after which a copy is ended.
DEADLINE = 6 * 3600
#: With files of the master the content counts: their copies have the time of the copying.
_OF_MASTER = ("--checksum", "--no-times")


@dataclass(frozen=True)
class RsyncOptions:
    """Keyword arguments of rsync.rsync, with Salt's names and defaults."""

    delete: Any = False
    force: Any = False
    update: Any = False
    passwordfile: Optional[str] = None
    exclude: Any = None
    excludefrom: Optional[str] = None
    dryrun: Any = False
    rsh: Optional[str] = None
    additional_opts: Any = None
    saltenv: Optional[str] = None


def options_of(given: RsyncOptions) -> List[str]:
    """Return the options of rsync in Salt's order.

    Raises:
        UsageError: additional_opts is no list of texts.
    """
    words = ["-avz"]
    for name, on in (("delete", given.delete), ("force", given.force), ("update", given.update)):
        words += [f"--{name}"] if truth(on) else []
    if given.rsh:
        words.append(f"--rsh={given.rsh}")
    if given.passwordfile:
        words.append(f"--password-file={given.passwordfile}")
    if given.excludefrom:
        words.append(f"--exclude-from={given.excludefrom}")
    elif given.exclude:
        each = given.exclude if isinstance(given.exclude, (list, tuple)) else [given.exclude]
        words += [f"--exclude={one}" for one in each]
    words += ["--dry-run"] if truth(given.dryrun) else []
    more = given.additional_opts or []
    if not isinstance(more, (list, tuple)) or not all(isinstance(one, str) for one in more):
        raise UsageError("additional_opts must be a list of texts")
    return [*words, *more]


def _configured(context: Context, given: RsyncOptions) -> RsyncOptions:
    """Return the options, those that are not given from the settings rsync.NAME."""
    found = {}
    for field in fields(RsyncOptions):
        if field.name in ("saltenv", "additional_opts") or getattr(given, field.name):
            continue
        value = context.call("config.option", f"rsync.{field.name}")
        if value:
            found[field.name] = value
    return replace(given, **found)


@contextmanager
def _source(context: Context, address: str, saltenv: str) -> Iterator[str]:
    """Yield a path or address for rsync; files of the master are copied to a temporary folder.

    Raises:
        CommandExecutionError: the master has no such file or folder.
    """
    if not address.startswith("salt://"):
        yield address
        return
    path, env = split_location(address, saltenv)
    inner = path.rstrip("/")
    single = context.files.fetch(inner, env)
    if single is not None:
        yield str(single)
        return
    entries = context.files.entries(env, f"{inner}/" if inner else "")
    if not entries:
        raise CommandExecutionError(f"{address} does not exist")
    with tempfile.TemporaryDirectory(prefix="catena-rsync-") as name:
        for entry in entries:
            found = context.files.fetch(entry.path, env)
            if found is None:
                raise CommandExecutionError(f"salt://{entry.path} does not exist any more")
            target = Path(name, entry.path[len(inner) :].lstrip("/"))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(found, target)
            target.chmod(entry.mode & 0o777)
        yield f"{name}/"


def _run(context: Context, src: str, dst: str, given: RsyncOptions) -> Dict[str, Any]:
    words = ["rsync", *options_of(given)]
    if src.startswith("salt://"):
        words += _OF_MASTER
    with _source(context, src, given.saltenv or context.saltenv) as path:
        ran = programs.look(context, [*words, "--", path, dst], "rsync", timeout=DEADLINE)
    return ran.as_dict()


@function()
def rsync(context: Context, /, src: str, dst: str, **arguments: Any) -> Dict[str, Any]:
    """Copy *src* to *dst* and return {pid, retcode, stdout, stderr}.

    Args:
        context: the host.
        src: path, HOST:PATH, rsync:// or salt:// address.
        dst: path or HOST:PATH.
        arguments: delete, force, update, exclude, excludefrom, passwordfile, dryrun, rsh,
            additional_opts (a list); the settings rsync.NAME are their defaults.

    Raises:
        CommandExecutionError: rsync is not installed, or the master has no such file.
        UsageError: an argument makes no sense.
    """
    given = _configured(context, take(RsyncOptions, arguments, "rsync.rsync"))
    source = str(src or context.call("config.option", "rsync.src"))
    target = str(dst or context.call("config.option", "rsync.dst"))
    if not source or not target:
        raise UsageError("src and dst cannot be empty")
    return _run(context, source, target, given)


@function(reads=True)
def preview(context: Context, /, src: str, dst: str, **arguments: Any) -> Dict[str, Any]:
    """Return what rsync.rsync would print, without copying; its arguments."""
    given = _configured(context, take(RsyncOptions, arguments, "rsync.preview"))
    return _run(context, str(src), str(dst), replace(given, dryrun=True))


@function(reads=True)
def version(context: Context) -> str:
    """Return the version of rsync."""
    words = programs.need(context, ["rsync", "--version"], "rsync").split()
    if len(words) < 3:
        raise CommandExecutionError("Unable to determine rsync version")
    return words[2]


@function(reads=True)
def config(context: Context, conf_path: str = "/etc/rsyncd.conf") -> str:
    """Return the text of the configuration of rsync's daemon."""
    try:
        return Path(conf_path).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        raise CommandExecutionError(f"{conf_path} does not exist") from None
    except OSError as problem:
        raise CommandExecutionError(f"Unable to read {conf_path}: {problem.strerror}") from problem


def copied_and_deleted(stdout: str) -> Dict[str, str]:
    """Return Salt's changes, {copied, deleted}, of what rsync printed; {} for none."""
    lines = stdout.split("\n\n")[0].splitlines()[1:]
    deleted = sorted(line[len("deleting ") :] for line in lines if line.startswith("deleting "))
    copied = sorted(line for line in lines if line and not line.startswith("deleting "))
    if not copied and not deleted:
        return {}
    return {"copied": "\n".join(copied) or "N/A", "deleted": "\n".join(deleted) or "N/A"}


def summary(stdout: str) -> str:
    """Return the last paragraph of what rsync printed, as a list."""
    parts = listed(stdout.strip().split("\n\n")[-1].replace("  ", ",").replace("\n", ","))
    return "- " + "\n- ".join(parts)
