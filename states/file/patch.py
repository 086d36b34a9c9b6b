"""file.patch: apply a patch once."""

from __future__ import annotations

import shlex
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any, List, Optional

from catena.core.context import Context
from catena.core.dry_run import only_looking
from catena.core.errors import CommandExecutionError, RenderError, UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared.arguments import split
from catena.modules.shared.command.options import RunOptions
from catena.modules.shared.command.run import Ran
from catena.modules.shared.command.run import run as run_command
from catena.states.answers import done, failed, likely_typos, would
from catena.states.file.managed import managed_order, new_content
from catena.states.file.options import ManagedOptions

#: Options of patch(1) that the state sets itself or that would redirect its output.
_REFUSED = ("-N", "--forward", "-r", "--reject-file", "-o", "--output")


@dataclass(frozen=True)
class PatchOptions:
    """Arguments of file.patch, with Salt's names and defaults."""

    source: Any = None
    source_hash: Any = ""
    source_hash_name: Optional[str] = None
    skip_verify: bool = False
    template: Optional[str] = None
    context: Any = None
    defaults: Any = None
    options: Any = ""
    reject_file: Optional[str] = None
    strip: Optional[int] = None
    saltenv: Optional[str] = None


@state()
def patch(context: Context, /, name: str, source: Any = None, **options: Any) -> StateResult:
    """Apply a patch to a file or to the files below a folder, unless it is already applied.

    Args:
        context: of the run.
        name: absolute path of the file or folder.
        source: address of the patch.
        options: strip (number of path components to remove from names in the patch; default 0,
            for a folder 1), options (of the program patch), reject_file, template, context,
            defaults, source_hash, skip_verify.
    """
    chosen, rest = split(PatchOptions, {**options, "source": source})
    warnings = likely_typos(PatchOptions, rest, "file.patch")
    path = Path(str(name)).expanduser()
    if not path.is_absolute():
        return failed(f"{name} is not an absolute path")
    if not path.exists():
        return failed(f"{name} does not exist")
    try:
        result = _patched(context, path, chosen)
    except (CommandExecutionError, RenderError, UsageError) as problem:
        return failed(str(problem))
    return StateResult(result.result, result.changes, result.comment, warnings)


def _content(context: Context, path: Path, options: PatchOptions) -> bytes:
    if not options.source:
        raise UsageError("file.patch needs a source")
    wanted = ManagedOptions(
        source=options.source,
        source_hash=str(options.source_hash or ""),
        source_hash_name=options.source_hash_name,
        skip_verify=options.skip_verify,
        template=options.template,
        context=options.context,
        defaults=options.defaults,
        saltenv=options.saltenv,
    )
    return new_content(context, managed_order(context, str(path), wanted)) or b""


def _words(options: PatchOptions) -> List[str]:
    """Return the options for the program.

    Raises:
        UsageError: an option is reserved for the state.
    """
    given = shlex.split(str(options.options or ""))
    refused = [word for word in given if word.startswith(_REFUSED)]
    if refused:
        raise UsageError(f"The following CLI options are not allowed: {', '.join(refused)}")
    return given


def _patched(context: Context, path: Path, options: PatchOptions) -> StateResult:
    folder = path.is_dir()
    strip = int(options.strip) if options.strip is not None else int(folder)
    words = ["patch", "--batch", f"--strip={strip}", *_words(options)]
    where = RunOptions(cwd=str(path if folder else path.parent), python_shell=False)
    with tempfile.NamedTemporaryFile(prefix="patch-") as stream:
        stream.write(_content(context, path, options))
        stream.flush()

        def run(*more: str) -> Ran:
            target = [] if folder else [str(path)]
            command = [*words, f"--input={stream.name}", *more, *target]
            with only_looking() if "--dry-run" in more else nullcontext():
                return run_command(context, command, where)

        return _applied(context, options, run)


def _applied(context: Context, options: PatchOptions, run: Any) -> StateResult:
    if run("--dry-run", "--reverse", "--force").retcode == 0:
        return done("Patch was already applied")
    tried: Ran = run("--dry-run", "--forward")
    if tried.retcode:
        return failed(
            "Patch would not apply cleanly, no changes made. Results of dry-run are below.\n\n"
            + "\n".join(text for text in (tried.stdout, tried.stderr) if text)
        )
    if context.test:
        return would("The patch would be applied", tried.as_dict())
    rejects = [f"--reject-file={options.reject_file}"] if options.reject_file else []
    ran: Ran = run("--forward", *rejects)
    if ran.retcode:
        return failed(f"Patch failed: {ran.stdout}\n{ran.stderr}".rstrip())
    return done("Patch successfully applied", ran.as_dict())
