"""Run firewall-cmd, or firewall-offline-cmd while firewalld does not run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.patterns import lazy_pattern
from catena.modules.shared import programs

_PACKAGE = "firewalld"
_BUS = Path("/run/dbus/system_bus_socket")
#: Folders of the permanent configuration.
_FOLDERS = (Path("/etc/firewalld"), Path("/usr/lib/firewalld"))
#: Exit codes of firewall-cmd: firewalld does not run, the system bus can't be reached.
_NOT_RUNNING = (252, 36)
#: Key in the run's scratch data: (state of the folders, answers by their words).
_READ = "firewalld"
_VALUE = lazy_pattern(r"[^\x00-\x1f]{1,4096}\Z")
_NAME = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9_./+-]{0,127}\Z")


def named(kind: str, name: Any) -> str:
    """Return *name* if it can be that of a zone or service.

    Raises:
        UsageError: it can't.
    """
    if not _NAME.match(str(name)):
        raise UsageError(f"{str(name)[:80]!r} can't be the name of a {kind} of firewalld")
    return str(name)


def valued(value: Any) -> str:
    """Return the text of an option's value.

    Raises:
        UsageError: it is empty, or has several lines.
    """
    if not _VALUE.match(str(value)):
        raise UsageError(f"{str(value)[:80]!r} can't be a value for firewalld")
    return str(value)


def run(context: Context, words: Sequence[str], *, permanent: bool) -> str:
    """Run firewall-cmd and return what it prints.

    Args:
        context: the host.
        words: options.
        permanent: of the configuration on disk, which also works while firewalld does not run.

    Raises:
        CommandExecutionError: it is not installed, refuses, or needs a running firewalld.
    """
    if _BUS.exists() or not permanent:
        flags = ["--permanent"] if permanent else []
        ran = programs.look(context, ["firewall-cmd", *flags, *words], _PACKAGE)
        if not ran.retcode:
            return ran.stdout.strip()
        if ran.retcode not in _NOT_RUNNING or not permanent:
            told = (ran.stderr or ran.stdout).strip()
            raise CommandExecutionError(f"firewall-cmd failed: {told[-2000:]}")
    return run_offline(context, words)


def run_offline(context: Context, words: Sequence[str]) -> str:
    """Run firewall-offline-cmd, which changes the files itself, and return what it prints.

    Raises:
        CommandExecutionError: it is not installed, or refuses.
    """
    ran = programs.look(context, ["firewall-offline-cmd", *words], _PACKAGE)
    if ran.retcode:
        told = (ran.stderr or ran.stdout).strip()
        raise CommandExecutionError(f"firewall-offline-cmd failed: {told[-2000:]}")
    return ran.stdout.strip()


def asked(context: Context, words: Sequence[str], *, permanent: bool) -> str:
    """Return what firewall-cmd prints; a permanent answer is kept until a file changes."""
    if not permanent:
        return run(context, words, permanent=False)
    present = _present()
    known = context.scratch.get(_READ)
    if known is None or known[0] != present:
        known = (present, {})
        context.scratch[_READ] = known
    answers: Dict[Tuple[str, ...], str] = known[1]
    key = tuple(words)
    if key not in answers:
        answers[key] = run(context, words, permanent=True)
    return answers[key]


def _present() -> Tuple[Any, ...]:
    """Return what changes with every file of the permanent configuration."""
    found: List[Any] = []
    for folder in _FOLDERS:
        for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
            try:
                status = path.stat()
            except OSError:
                continue  # removed meanwhile
            found.append((str(path), status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(found)


def zones(text: str) -> Dict[str, Dict[str, List[str]]]:
    """Return what --list-all prints as {zone: {key: values}}.

    The values of a key that are printed on its own line are one text, as in Salt.
    """
    found: Dict[str, Dict[str, List[str]]] = {}
    zone: Dict[str, List[str]] = {}
    key = ""
    for line in text.splitlines():
        if not line.strip():
            continue
        if not line[0].isspace():
            zone = found.setdefault(line.split()[0], {})
        elif line.startswith("\t"):
            zone.setdefault(key, []).append(line.strip())
        else:
            key, _, value = line.strip().partition(":")
            zone[key] = [value.strip()]
    return found
