"""rsync.synchronized: a folder like another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import replace
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.rsync import RsyncOptions, copied_and_deleted, summary
from catena.modules.shared.arguments import split, truth
from catena.states.answers import done, failed, likely_typos, would


@state()
def synchronized(
    context: Context, /, name: str, source: str, prepare: Any = False, **arguments: Any
) -> StateResult:
    """Copy what differs from one folder to another.

    Args:
        context: the call's context.
        name: the folder to which files are copied.
        source: path, HOST:PATH, rsync:// or salt:// address; "/" at its end means its contents.
        prepare: create the folder *name*.
        arguments: delete (what the source lacks), force, update (keep newer files), exclude,
            excludefrom, passwordfile, dryrun, additional_opts (a list).
    """
    given, rest = split(RsyncOptions, arguments)
    warnings = likely_typos(RsyncOptions, rest, "rsync.synchronized")
    try:
        found = _synchronized(context, str(name), str(source), truth(prepare), given)
    except (CommandExecutionError, UsageError) as problem:
        found = failed(str(problem))
    except OSError as problem:
        found = failed(f"cannot make {name}: {problem.strerror}")
    return replace(found, warnings=(*found.warnings, *warnings))


def _synchronized(
    context: Context, name: str, source: str, prepare: bool, given: RsyncOptions
) -> StateResult:
    there = Path(name).exists()
    if not there and not truth(given.force) and not prepare:
        return failed(f"Destination directory {name} was not found.")
    look = context.test or truth(given.dryrun)
    if not there and look:
        return would(f"Destination directory {name} would be created and filled from {source}")
    options = {key: value for key, value in vars(given).items() if value}
    if look:
        ran = context.call("rsync.preview", source, name, **options)
    else:
        if not there and prepare:
            Path(name).mkdir(parents=True)
        ran = context.call("rsync.rsync", source, name, **options)
    if ran["retcode"]:
        return failed(ran["stderr"].strip() or ran["stdout"].strip())
    changes = copied_and_deleted(ran["stdout"])
    told = summary(ran["stdout"])
    if look and changes:
        return would(told, changes)
    return done(told, changes)
