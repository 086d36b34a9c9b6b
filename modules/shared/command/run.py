"""Run the commands of cmd.* and return Salt's {pid, retcode, stdout, stderr}."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional

from catena.core import frozen
from catena.core.context import Context, OutputTap
from catena.core.errors import CommandExecutionError
from catena.core.frozen import dataclass
from catena.core.logs import logger
from catena.modules.shared.arguments import listed, truth
from catena.modules.shared.command import process
from catena.modules.shared.command.options import (
    RunOptions,
    Words,
    build,
    find_identity,
    from_command_line,
    success_codes,
)

LOG = logger(__name__)


@dataclass(frozen=True)
class Ran:
    """The result of a command, with its output as text."""

    pid: int
    retcode: int
    stdout: str
    stderr: str
    timed_out: bool = False
    #: The script was not found and nothing ran.
    cache_error: bool = False

    def as_dict(self) -> Dict[str, Any]:
        """Return Salt's dict."""
        return {
            "pid": self.pid,
            "retcode": self.retcode,
            "stdout": self.stdout,
            "stderr": self.stderr,
        }


def _text(data: bytes, options: RunOptions) -> str:
    text = data.decode(options.output_encoding or "utf-8", errors="replace")
    return text.rstrip() if truth(options.rstrip) else text


def _join(text: str, line: str) -> str:
    return f"{text}\n{line}" if text else line


def _code(ended: process.Finished, stdout: str, stderr: str, options: RunOptions) -> int:
    if ended.timed_out:
        return 1
    if ended.retcode in success_codes(options):
        return 0
    if set(stdout.splitlines()) & {str(text) for text in listed(options.success_stdout)}:
        return 0
    if set(stderr.splitlines()) & {str(text) for text in listed(options.success_stderr)}:
        return 0
    return ended.retcode


def rendered(context: Context, text: str, options: RunOptions) -> str:
    """Return *text* rendered by the engine of `template`, or unchanged."""
    if not options.template:
        return text
    from catena.renderers.templates import render_file

    variables = {**(options.defaults or {}), **(options.context or {})}
    return str(render_file(context, text, options.template, variables))


def run(context: Context, cmd: Words, options: RunOptions, tap: Optional[OutputTap] = None) -> Ran:
    """Run *cmd* and return its result; a failing command is no error.

    At the deadline the command's process tree is ended and the exit code is 1. Output beyond the
    limit is dropped. In both cases the last line of stdout reports it.

    Args:
        context: the call's context.
        cmd: a command line or a list of arguments.
        options: the options of cmd.run.
        tap: receives the output while the command runs, unless the output is hidden.

    Raises:
        CommandExecutionError: it could not be started.
        UsageError: an argument makes no sense.
    """
    if isinstance(cmd, str):
        cmd = rendered(context, cmd, options)
    command = build(context, cmd, options)
    ended = process.run(command, None if truth(options.hide_output) else tap)
    stdout, stderr = _text(ended.stdout, options), _text(ended.stderr, options)
    code = _code(ended, stdout, stderr, options)
    LOG.debug("a command of process id %d ended with %d", ended.pid, ended.retcode)
    if ended.timed_out:
        line = cmd if isinstance(cmd, str) else shlex.join(str(word) for word in cmd)
        stdout = _join(stdout, f"{line} : Timed out after {command.timeout:g} seconds")
    if ended.dropped:
        stdout = _join(stdout, f"({ended.dropped} more bytes of output were dropped)")
    if truth(options.hide_output):
        stdout = stderr = ""
    return Ran(ended.pid, code, stdout, stderr, ended.timed_out)


def noted(context: Context, ran: Ran, options: RunOptions) -> Ran:
    """Set the job's exit code to that of *ran*, as in Salt, unless it is ignored.

    Raises:
        CommandExecutionError: it failed, and `raise_err` was asked for.
    """
    ignored = truth(options.ignore_retcode)
    if context.job is None or from_command_line(context):
        # Only the job's own command counts; the template or state evaluates its commands itself.
        context.scratch["retcode"] = 0 if ignored else ran.retcode
    if ran.retcode and truth(options.raise_err) and not ignored:
        raise CommandExecutionError(
            f"The command failed with return code {ran.retcode}: {ran.stderr or ran.stdout}"
        )
    return ran


def script_text(context: Context, source: str, saltenv: str) -> Optional[bytes]:
    """Return the bytes of a script: salt://, a local path or file://; None when not there."""
    if source.startswith("salt://"):
        from catena.modules.shared.locations import split_location

        found = context.files.fetch(*split_location(source, saltenv))
        return found.read_bytes() if found else None
    path = Path(source[len("file://") :] if source.startswith("file://") else source)
    return path.read_bytes() if path.is_absolute() and path.is_file() else None


def run_script(
    context: Context,
    source: str,
    args: Words,
    options: RunOptions,
    tap: Optional[OutputTap] = None,
) -> Ran:
    """Run the script *source* with *args* and return its result.

    The script is copied to a folder that only its user can enter, and removed afterwards.

    Raises:
        CommandExecutionError: it could not be started.
    """
    text = script_text(context, source, options.saltenv or context.saltenv)
    if text is None:
        return Ran(0, 1, "", "", cache_error=True)
    if options.template:
        text = rendered(context, text.decode("utf-8"), options).encode("utf-8")
    folder = Path(tempfile.mkdtemp(prefix="catena-script-"))
    try:
        path = _place(folder, text, Path(source.partition("?")[0]).suffix, options)
        tail = args if isinstance(args, str) else shlex.join(str(word) for word in args)
        if options.python_shell is None or truth(options.python_shell):
            line: Words = f"{shlex.quote(str(path))} {tail}".rstrip()
            ready = frozen.replace(options, python_shell=True, template=None)
        else:
            line = [str(path), *_split(tail)]
            ready = frozen.replace(options, template=None)
        if truth(options.bg):
            # A background script outlives this call, so its command removes the folder at its end.
            line = f"{line if isinstance(line, str) else shlex.join(line)}; rm -rf -- {folder}"
            ready = frozen.replace(ready, python_shell=True)
        return run(context, line, ready, tap)
    finally:
        if not truth(options.bg):
            shutil.rmtree(folder, ignore_errors=True)


def _split(tail: str) -> List[str]:
    try:
        return shlex.split(tail)
    except ValueError as problem:
        raise CommandExecutionError(f"The arguments can't be split: {problem}") from problem


def _place(folder: Path, text: bytes, suffix: str, options: RunOptions) -> Path:
    path = folder / f"script{suffix}"
    path.write_bytes(text)
    path.chmod(0o500)
    identity = find_identity(options.runas, options.group) if options.runas else None
    if identity:
        for item in (path, folder):
            os.chown(item, identity.uid, identity.gid)
    return path
