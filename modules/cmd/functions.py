"""cmd.*: run commands and scripts on the host.

As in Salt, a string runs in a shell if a command line or a state made the call. If another
function or a template made it, the string is split into words without a shell. `python_shell`
overrides this. A command runs in its own session; its `timeout` ends the whole process tree.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from catena.core import frozen
from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.modules.shared.arguments import take
from catena.modules.shared.command.options import RunOptions, Words
from catena.modules.shared.command.run import Ran, noted, run_script
from catena.modules.shared.command.run import run as run_command

_LANGUAGES = {
    "python": "python3",
    "python3": "python3",
    "bash": "bash",
    "sh": "sh",
    "perl": "perl",
    "ruby": "ruby",
    "node": "node",
    "lua": "lua",
    "php": "php",
}


def _run(context: Context, cmd: Words, what: str, options: Dict[str, Any], **forced: Any) -> Ran:
    chosen = frozen.replace(take(RunOptions, options, what), **forced)
    tap = context.host.listen()
    return noted(context, run_command(context, cmd, chosen, tap), chosen)


@function(name="run", clean=True)
def run(context: Context, /, cmd: Words, **options: Any) -> str:
    """Run *cmd* and return its output, both streams in the order of writing.

    Args:
        context: the call's context.
        cmd: a command line, or a list of words.
        options: cwd, stdin, runas, group, shell, python_shell, env, clean_env, prepend_path,
            template, rstrip, umask, timeout (seconds), hide_output, ignore_retcode, bg, raise_err,
            success_retcodes, success_stdout, success_stderr, … as in Salt.

    Raises:
        CommandExecutionError: it could not be started.
    """
    merge = options.pop("redirect_stderr", True)
    return _run(context, cmd, "cmd.run", options, redirect_stderr=merge).stdout


@function(clean=True)
def shell(context: Context, /, cmd: Words, **options: Any) -> str:
    """Run *cmd* in a shell and return its output; options as for cmd.run."""
    options.pop("python_shell", None)
    return _run(context, cmd, "cmd.shell", options, redirect_stderr=True, python_shell=True).stdout


@function(clean=True)
def run_stdout(context: Context, /, cmd: Words, **options: Any) -> str:
    """Run *cmd* and return its standard output; options as for cmd.run."""
    return _run(context, cmd, "cmd.run_stdout", options).stdout


@function(clean=True)
def run_stderr(context: Context, /, cmd: Words, **options: Any) -> str:
    """Run *cmd* and return its standard error; options as for cmd.run."""
    return _run(context, cmd, "cmd.run_stderr", options).stderr


@function(clean=True)
def run_all(context: Context, /, cmd: Words, **options: Any) -> Dict[str, Any]:
    """Run *cmd* and return {pid, retcode, stdout, stderr}; options as for cmd.run."""
    return _run(context, cmd, "cmd.run_all", options).as_dict()


@function(clean=True)
def retcode(context: Context, /, cmd: Words, **options: Any) -> int:
    """Run *cmd* and return its exit code; options as for cmd.run."""
    return _run(context, cmd, "cmd.retcode", options, redirect_stderr=True).retcode


@function()
def run_bg(context: Context, /, cmd: Words, **options: Any) -> Dict[str, Any]:
    """Start *cmd* and return {pid} without waiting; options as for cmd.run."""
    return {"pid": _run(context, cmd, "cmd.run_bg", options, bg=True).pid}


@function(clean=True)
def shell_all(context: Context, /, cmd: Words, **options: Any) -> Dict[str, Any]:
    """Run *cmd* in a shell and return {pid, retcode, stdout, stderr}."""
    return _run(context, cmd, "cmd.shell_all", options, python_shell=True).as_dict()


@function()
def script(
    context: Context, /, source: str, args: Optional[Words] = None, **options: Any
) -> Dict[str, Any]:
    """Fetch a script, run it with *args*, and return {pid, retcode, stdout, stderr}.

    Args:
        context: the call's context.
        source: salt://PATH, or a path on this host.
        args: a string that a shell splits, or a list of words.
        options: as for cmd.run; `template` renders the script first.
    """
    chosen = take(RunOptions, options, "cmd.script")
    tap = context.host.listen()
    ran = noted(context, run_script(context, source, args or "", chosen, tap), chosen)
    found = ran.as_dict()
    if ran.cache_error:
        found["cache_error"] = True
    return found


@function()
def script_retcode(
    context: Context, /, source: str, args: Optional[Words] = None, **options: Any
) -> int:
    """Run a script as cmd.script does and return its exit code."""
    return int(script(context, source, args, **options)["retcode"])


def _in_language(lang: str, code: str, args: Words) -> Tuple[List[str], str]:
    words = str(lang).split()
    if not words:
        raise UsageError("cmd.exec_code needs a language")
    program = shutil.which(_LANGUAGES.get(words[0], words[0]))
    if program is None:
        raise CommandExecutionError(f"{words[0]} is not available")
    handle, path = tempfile.mkstemp(prefix="catena-code-")
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write("\n".join(code) if isinstance(code, (list, tuple)) else str(code))
    tail = args.split() if isinstance(args, str) else [str(word) for word in args]
    return [program, *words[1:], path, *tail], path


@function()
def exec_code_all(
    context: Context, /, lang: str, code: str, cwd: str = "/", args: Words = (), **options: Any
) -> Dict[str, Any]:
    """Run *code* with the interpreter *lang* and return {pid, retcode, stdout, stderr}."""
    words, path = _in_language(lang, code, args)
    try:
        return _run(
            context, words, "cmd.exec_code_all", options, cwd=cwd, python_shell=False
        ).as_dict()
    finally:
        Path(path).unlink(missing_ok=True)


@function()
def exec_code(
    context: Context, /, lang: str, code: str, cwd: str = "/", args: Words = (), **options: Any
) -> str:
    """Run *code* with the interpreter *lang* and return its standard output."""
    return str(exec_code_all(context, lang, code, cwd, args, **options)["stdout"])


@function(inline=True)
def which(context: Context, cmd: str) -> Optional[str]:
    """Return the path of the program *cmd*, or None."""
    return shutil.which(str(cmd))


@function(inline=True)
def which_bin(context: Context, cmds: List[str]) -> Optional[str]:
    """Return the path of the first existing program of a list, or None."""
    for cmd in cmds:
        found = shutil.which(str(cmd))
        if found:
            return found
    return None


@function(inline=True)
def has_exec(context: Context, cmd: str) -> bool:
    """Return whether the program *cmd* exists."""
    return shutil.which(str(cmd)) is not None


@function(reads=True)
def shells(context: Context) -> List[str]:
    """Return the shells in /etc/shells."""
    path = Path("/etc/shells")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [line.strip() for line in lines if line.strip().startswith("/")]


@function(name="tty")
def tty(context: Context, device: str, echo: str = "") -> Dict[str, Any]:
    """Write *echo* to a terminal device (tty1, pts/0).

    Raises:
        UsageError: *device* is no terminal's name.
    """
    name = str(device)
    if not name.startswith(("tty", "pts")) or ".." in name:
        raise UsageError(f"{name!r} is not a terminal")
    try:
        with Path("/dev", name).open("wb", buffering=0) as stream:
            stream.write(f"{echo}\n".encode())
    except OSError as problem:
        raise CommandExecutionError(f"{name}: {problem.strerror}") from problem
    return {"Success": f"Message was successfully echoed to {name}"}
