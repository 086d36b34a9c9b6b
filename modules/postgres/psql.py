r"""Run psql: values are variables of its script, so that they never become SQL or arguments.

The script goes to the standard input of psql, and the connection into its environment (a database
named `host=…` would be taken for a connection string as an argument). `\set` defines each value;
psql itself quotes it where a statement says `:'name'` (literal) or `:"name"` (identifier).
"""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, replace
from catena.modules.shared import programs
from catena.modules.shared.arguments import split
from catena.modules.shared.command.options import RunOptions
from catena.modules.shared.command.run import Ran, run

Row = Dict[str, str]
Rows = List[Row]

_PACKAGE = "postgresql-client (Debian) or postgresql (Fedora, SUSE)"
#: System user that owns a server of the distribution.
OWNER = "postgres"
#: Folders with the programs of a server, which distributions keep out of PATH.
_FOLDERS = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "usr/lib/postgresql*/bin")
#: Bytes of output of one query; a longer answer is an error.
_OUTPUT_LIMIT = 64 * 1024 * 1024
#: Maximum characters of a value, and of an error of psql in ours.
_VALUE_LIMIT = 1024 * 1024
_TOLD = 2000
#: Last line of a complete answer.
_END = "catena: end of the answer"
_DEADLINE = 60
_ANSWERS = "postgres.answers"
_VARIABLE = re.compile(r"[a-z][a-z0-9_]*\Z")
_LOCATION = re.compile(r"^psql(?::[^:\n]*:\d+)?: *", re.MULTILINE)
_DOWN = re.compile(
    r"Is the server running|PsqlConnection refused|No such file or directory|starting up"
    r"|shutting down|timeout expired|could not translate host name|No route to host"
)
_NO_DATABASE = re.compile(r'FATAL: +database ".*" does not exist', re.DOTALL)


class NoServerError(CommandExecutionError):
    """No server answers, or psql is not installed: another state may have to run first."""


class NoDatabaseError(CommandExecutionError):
    """The server has no such database."""


@dataclass(frozen=True)
class PsqlConnection:
    """Arguments that every function takes, with Salt's names."""

    #: Role of the database server.
    user: Optional[str] = None
    host: Optional[str] = None
    port: Any = None
    maintenance_db: Optional[str] = None
    password: Optional[str] = None
    #: System user that runs psql.
    runas: Optional[str] = None


def connection(
    context: Context, arguments: Mapping[str, Any]
) -> Tuple[PsqlConnection, Dict[str, Any]]:
    """Return the connection of *arguments*, completed by the configuration, and the others."""
    given, rest = split(PsqlConnection, arguments)

    def chosen(value: Any, key: str) -> Any:
        return value or context.call("config.option", f"postgres.{key}") or None

    host = chosen(given.host, "host")
    runas = given.runas
    if runas is None and (not host or str(host).startswith("/")) and os.geteuid() == 0:
        runas = OWNER
    made = PsqlConnection(
        user=chosen(given.user, "user") or runas,
        host=host,
        port=chosen(given.port, "port"),
        maintenance_db=chosen(given.maintenance_db, "maintenance_db") or "postgres",
        password=chosen(given.password, "pass"),
        runas=runas,
    )
    return made, rest


def elsewhere(server: PsqlConnection, database: str) -> PsqlConnection:
    """Return the connection to another database of the same server."""
    return replace(server, maintenance_db=str(database))


def find(context: Context, name: str, package: str = _PACKAGE) -> str:
    """Return the path of a program of PostgreSQL.

    It is in the folder of the configuration (`postgres.bins_dir`), on the usual path, or in the
    newest server's folder.

    Raises:
        NoServerError: it is not installed.
    """
    folder = context.call("config.option", "postgres.bins_dir")
    if folder:
        found = shutil.which(name, path=str(folder))
        if found:
            return found
        raise NoServerError(f"postgres.bins_dir: there is no program {name} in {folder}")
    try:
        return programs.find(name, package)
    except CommandExecutionError as problem:
        places = [one for form in _FOLDERS for one in Path("/").glob(form)]
        for place in sorted(places, key=_version_in, reverse=True):
            found = shutil.which(name, path=str(place))
            if found:
                return found
        raise NoServerError(str(problem)) from None


def _version_in(path: Path) -> Tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", str(path)))


def _assignment(name: str, value: Any) -> str:
    """Return the line of a script that sets a variable.

    Raises:
        UsageError: the value can't be one.
    """
    if not _VARIABLE.match(name):
        raise ValueError(f"{name!r} can't be a variable of psql")
    text = str(value)
    if len(text) > _VALUE_LIMIT:
        raise UsageError(f"a value has more than {_VALUE_LIMIT} characters")
    if "\0" in text:
        raise UsageError("a value must not contain a NUL character")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError("a value is no valid Unicode text") from None
    text = text.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n").replace("\r", "\\r")
    return f"\\set {name} '{text}'\n"


def _environment(server: PsqlConnection) -> Dict[str, str]:
    """Return libpq's variables of a connection."""
    found = {
        "LC_ALL": "C",
        "PGCLIENTENCODING": "UTF8",
        "PGDATESTYLE": "ISO",
        "PGAPPNAME": "catena",
        "PGCONNECT_TIMEOUT": "20",
        "PGPASSFILE": "/dev/null",
    }
    for name, value in (
        ("PGUSER", server.user),
        ("PGHOST", server.host),
        ("PGPORT", server.port),
        ("PGDATABASE", server.maintenance_db),
        ("PGPASSWORD", server.password),
    ):
        if value not in (None, ""):
            found[name] = str(value)
    if server.password in (None, ""):
        del found["PGPASSFILE"]
    return found


def _complaint(server: PsqlConnection, stderr: str) -> CommandExecutionError:
    """Return the error for a failed script."""
    told = " ".join(_LOCATION.sub("", stderr).split())[:_TOLD] or "psql printed nothing"
    if _NO_DATABASE.search(stderr):
        return NoDatabaseError(told)
    if _DOWN.search(stderr) and "ERROR:" not in stderr:
        place = server.host or "this host"
        return NoServerError(
            f"PostgreSQL on {place} does not answer: {told} Start the server first; if it takes "
            "long to start, add `retry: {attempts: 5, interval: 10}` to the state"
        )
    return CommandExecutionError(told)


def _run(context: Context, server: PsqlConnection, script: str) -> str:
    """Run a script and return what it printed, without the last line.

    Raises:
        CommandExecutionError: see `ask`.
    """
    words = [find(context, "psql"), "-X", "-q", "-A", "-t", "-w", "-v", "ON_ERROR_STOP=1"]
    # A longer error repeats the statement, and with it the hash of a password.
    words += ["-v", "VERBOSITY=terse", "-v", "SHOW_CONTEXT=never"]
    timeout = context.call("config.option", "postgres.timeout") or _DEADLINE
    options = RunOptions(
        python_shell=False,
        runas=server.runas,
        stdin=f"{script}\\echo '{_END}'\n",
        cwd="/",
        env=_environment(server),
        timeout=timeout,
        output_limit=_OUTPUT_LIMIT,
    )
    ran: Ran = run(context, words, options)
    if ran.timed_out:
        raise CommandExecutionError(f"psql did not end within {float(timeout):g} seconds")
    if ran.retcode:
        raise _complaint(server, ran.stderr or ran.stdout)
    answer, _, end = ran.stdout.rpartition("\n")
    if (end or ran.stdout) != _END:
        raise CommandExecutionError(
            f"the answer of psql is incomplete: it is longer than {_OUTPUT_LIMIT} bytes"
        )
    return answer


def _table(text: str) -> Rows:
    """Return the rows of a CSV text with a header."""
    csv.field_size_limit(_OUTPUT_LIMIT)
    return [dict(row) for row in csv.DictReader(io.StringIO(text))]


@contextmanager
def remembering(context: Context, calls: Sequence[Any] = ()) -> Iterator[None]:
    """Ask each question once within the block, until `act` changes something."""
    outer = context.scratch.get(_ANSWERS)
    context.scratch[_ANSWERS] = {}
    try:
        yield
    finally:
        if outer is None:
            context.scratch.pop(_ANSWERS, None)
        else:
            context.scratch[_ANSWERS] = {}


def ask(
    context: Context,
    server: PsqlConnection,
    query: str,
    values: Optional[Mapping[str, Any]] = None,
) -> Rows:
    """Return the rows of a query, as text by column; null is "".

    Args:
        context: the call's context.
        server: the connection.
        query: a constant; `:'x'` stands for the value of x.
        values: by name of the variable.

    Raises:
        NoServerError: no server answers, or psql is not installed.
        NoDatabaseError: the server has no such database.
        CommandExecutionError: the server refuses the query.
        UsageError: a value can't be sent.
    """
    script = "".join(_assignment(name, value) for name, value in (values or {}).items())
    script += f"COPY ({query}) TO STDOUT WITH CSV HEADER;\n"
    known: Optional[Dict[Any, str]] = context.scratch.get(_ANSWERS)
    if known is None:
        return _table(_run(context, server, script))
    key = (server, script)
    if key not in known:
        known[key] = _run(context, server, script)
    return _table(known[key])


def act(
    context: Context,
    server: PsqlConnection,
    statements: Sequence[str],
    values: Optional[Mapping[str, Any]] = None,
    *,
    whole: bool = True,
) -> None:
    r"""Run statements that change something.

    Args:
        context: the call's context.
        server: the connection.
        statements: constants; `:'x'` and `:"x"` stand for the value of x. One that ends with
            `\gexec` has no semicolon added.
        values: by name of the variable.
        whole: run them in one transaction.

    Raises:
        as `ask`.
    """
    script = "".join(_assignment(name, value) for name, value in (values or {}).items())
    ended = [one if one.endswith("\\gexec") else f"{one};" for one in statements]
    lines = ["BEGIN;", *ended, "COMMIT;"] if whole else ended
    if _ANSWERS in context.scratch:
        context.scratch[_ANSWERS] = {}
    _run(context, server, script + "".join(f"{line}\n" for line in lines))


def rows_of(context: Context, server: PsqlConnection, query: str, *, write: bool = False) -> Rows:
    """Return the rows of a query that a person wrote; psql does not interpret its text.

    Args:
        context: the call's context.
        server: the connection.
        query: one SQL query.
        write: run it in a transaction that may write, whatever the server's default is.

    Raises:
        as `ask`.
    """
    script = _assignment("query", query.strip().rstrip(";"))
    copied = "SELECT 'COPY (' || :'query' || E'\\n) TO STDOUT WITH CSV HEADER' \\gexec\n"
    if write:
        copied = f"START TRANSACTION READ WRITE;\n{copied}COMMIT;\n"
    if _ANSWERS in context.scratch:
        context.scratch[_ANSWERS] = {}
    return _table(_run(context, server, script + copied))
