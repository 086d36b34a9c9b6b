"""debconf.*: answers to the questions of Debian packages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.plugins import function
from catena.core.redact import MASK, is_secret_name
from catena.modules.shared import programs

_WORD = re.compile(r"[^\s#]\S*\Z")
#: Databases of debconf: answers, answers that are passwords, types of questions.
_FOLDER = Path("/var/cache/debconf")
_VALUES = ("config.dat", "passwords.dat")
_TEMPLATES = "templates.dat"
#: Types of templates that ask nothing.
_SILENT = ("", "text", "title")

Answers = Dict[str, List[List[str]]]


def _stanzas(path: Path) -> Iterator[Dict[str, str]]:
    """Yield the fields of each entry of a database; lines that begin with a space are left out."""
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return
    except OSError as problem:
        raise CommandExecutionError(f"{path}: {problem.strerror}") from problem
    for block in text.split("\n\n"):
        pairs = [line.partition(": ") for line in block.splitlines() if line[:1] != " "]
        fields = {key: value.strip() for key, mark, value in pairs if mark}
        if "Name" in fields:
            yield fields


@function(reads=True)
def get_selections(context: Context, fetchempty: bool = True) -> Answers:
    """Return all answers: {package: [[question, type, value], …]}; passwords are hidden.

    Args:
        context: the host.
        fetchempty: also return empty answers.

    Raises:
        CommandExecutionError: this host has no debconf, or its databases can't be read.
    """
    return {
        name: [
            [one[0], one[1], MASK if one[2] and is_secret(*one[:2]) else one[2]] for one in rows
        ]
        for name, rows in selections(fetchempty).items()
    }


def is_secret(question: str, kind: str) -> bool:
    """Return whether the answer to a question of type *kind* must not be shown."""
    return kind == "password" or is_secret_name(question)


def selections(fetchempty: bool = True) -> Answers:
    """Return all answers as debconf.get_selections does, with passwords.

    Raises:
        CommandExecutionError: this host has no debconf, or its databases can't be read.
    """
    if not (_FOLDER / _TEMPLATES).exists():
        raise CommandExecutionError(
            "debconf is not available on this host: install the package debconf"
        )
    types = {one["Name"]: one.get("Type", "") for one in _stanzas(_FOLDER / _TEMPLATES)}
    found: Answers = {}
    for name in _VALUES:
        for one in _stanzas(_FOLDER / name):
            kind = types.get(one.get("Template", one["Name"]), "")
            value = one.get("Value", "")
            if kind in _SILENT or not (value or fetchempty):
                continue
            for owner in one.get("Owners", "").split(", "):
                found.setdefault(owner, []).append([one["Name"], kind, value])
    found.pop("", None)
    return found


@function(reads=True)
def show(context: Context, name: str) -> Optional[List[List[str]]]:
    """Return the answers of a package: [[question, type, value], …]; None if it has none.

    Passwords are hidden.
    """
    return get_selections(context).get(str(name))


def line_of(package: Any, question: Any, kind: Any, value: Any) -> str:
    """Return an answer as debconf-set-selections reads it.

    Raises:
        UsageError: a part is no word, or the value has several lines.
    """
    words = [str(package), str(question), str(kind)]
    for word in words:
        if not _WORD.match(word):
            raise UsageError(f"{word[:80]!r} can't be a package, question or type of debconf")
    if any(mark in str(value) for mark in "\r\n\0"):
        raise UsageError(f"the answer to {words[1]} must be one line")
    return f"{' '.join(words)} {value}\n"


def _set(context: Context, text: str) -> None:
    # The answers may hold passwords: they are passed by standard input, and never shown.
    ran = programs.look(context, ["debconf-set-selections"], "debconf", stdin=text)
    if ran.retcode:
        raise CommandExecutionError(
            f"debconf-set-selections failed with return code {ran.retcode}; its message is not "
            "shown, because it may contain an answer"
        )


@function()
def set_(
    context: Context, package: str, question: str, type: str, value: Any, *extra: Any
) -> bool:  # fmt: skip
    """Set the answer to a question of a package; return True.

    Args:
        context: the host.
        package: as in postfix.
        question: as in postfix/mailname.
        type: as in string, boolean, select, password.
        value: the answer.
        extra: more words of the answer.

    Raises:
        CommandExecutionError: debconf refuses it.
        UsageError: a part is no word, or the answer has several lines.
    """
    answer = " ".join(str(one) for one in (value, *extra))
    _set(context, line_of(package, question, type, answer))
    return True


@function()
def set_file(context: Context, /, path: str, saltenv: Optional[str] = None, **kwargs: Any) -> bool:
    """Set the answers in a file; return False if it does not exist.

    Args:
        context: the host.
        path: address of the file, as in salt://postfix.selections.
        saltenv: environment.
        kwargs: accepted and ignored.

    Raises:
        CommandExecutionError: debconf refuses an answer, or the file can't be fetched.
    """
    text = _text(context, path, saltenv)
    if text is None:
        return False
    _set(context, text)
    return True


def _text(context: Context, path: str, saltenv: Optional[str]) -> Optional[str]:
    from catena.modules.file.source import FileSource, fetch

    source = FileSource(str(path), saltenv or context.saltenv, skip_verify=True)
    local = fetch(context, source)
    return None if local is None else local.read_text(encoding="utf-8")


@function()
def set_template(
    context: Context,
    /,
    path: str,
    template: str,
    context_: Optional[Mapping[str, Any]] = None,
    defaults: Optional[Mapping[str, Any]] = None,
    saltenv: Optional[str] = None,
    **kwargs: Any,
) -> bool:
    """Set the answers that a template renders to; return False if the template does not exist.

    Args:
        context: the host.
        path: address of the template, as in salt://postfix.selections.jinja.
        template: jinja, mako or py.
        context_: names for the template.
        defaults: names that `context` may override.
        saltenv: environment.
        kwargs: `context`, by its own name.

    Raises:
        CommandExecutionError: debconf refuses an answer, or the template can't be fetched.
        RenderError: the template fails.
    """
    from catena.renderers.templates import render_file

    text = _text(context, path, saltenv)
    if text is None:
        return False
    given = dict(kwargs.get("context") or context_ or {})
    names = {**dict(defaults or {}), **given, "saltenv": saltenv or context.saltenv}
    _set(context, render_file(context, text, str(template), {**names, "source": str(path)}))
    return True
