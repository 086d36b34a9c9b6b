"""Run the client of MariaDB or MySQL: no value becomes SQL, an argument or a client command.

A statement goes to the client as a hexadecimal literal that the server prepares, so the client
finds neither quotes nor commands in it. Within the statement `literal` and `identifier` quote
values. The connection is in a file that only this user may read and that lives as long as the run.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.core.frozen import dataclass, replace
from catena.modules.shared import programs
from catena.modules.shared.arguments import split
from catena.modules.shared.command.options import RunOptions
from catena.modules.shared.command.run import run

_PACKAGE = "mariadb-client (Debian), mariadb (Fedora, SUSE) or the client of MySQL"
_NAMES = ("mariadb", "mysql")
_OUTPUT_LIMIT = 64 * 1024 * 1024
_VALUE_LIMIT = 1024 * 1024
_TOLD = 2000
_DEADLINE = 60
_ANSWERS = "mysql.answers"
#: Header of the last result of each script.
_END = "catena: rows affected"
_ERROR = re.compile(r"^ERROR (\d+)(?: \(\w+\))?(?: at line \d+)?: ", re.MULTILINE)
#: Errors of a server that does not answer (CR_CONNECTION_ERROR, CR_CONN_HOST_ERROR, …).
_DOWN = ("2002", "2003", "2005", "2006", "2013")
_UNKNOWN_DATABASE = "1049"
_ESCAPES = {"n": "\n", "t": "\t", "0": "\0", "\\": "\\"}
_WORD = re.compile(r"[A-Za-z0-9_]+\Z")


class NoMysqlError(CommandExecutionError):
    """No server answers, or the client is not installed: another state may have to run first."""


class MysqlError(CommandExecutionError):
    """The server refused a statement.

    Args:
        code: the server's number of the error.
        message: says what it refused.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"MySQL Error {code}: {message}" if code else message)
        self.code = code


@dataclass(frozen=True)
class MysqlConnection:
    """Arguments that every function takes, with Salt's names."""

    connection_host: Optional[str] = None
    connection_port: Any = None
    connection_user: Optional[str] = None
    connection_pass: Optional[str] = None
    connection_db: Optional[str] = None
    connection_unix_socket: Optional[str] = None
    #: File of options to read, instead of the configuration.
    connection_default_file: Optional[str] = None
    connection_charset: Optional[str] = None


_KEYS = ("host", "port", "user", "pass", "db", "unix_socket", "default_file", "charset")


def connection(
    context: Context, arguments: Mapping[str, Any]
) -> Tuple[MysqlConnection, Dict[str, Any]]:
    """Return the connection of *arguments*, completed by the configuration, and the others."""
    given, rest = split(MysqlConnection, arguments)
    if given.connection_default_file:
        return given, rest
    found = {}
    for key in _KEYS:
        value = getattr(given, f"connection_{key}")
        if value is None:
            value = context.call("config.option", f"mysql.{key}") or None
        found[f"connection_{key}"] = value
    return MysqlConnection(**found), rest


def using(server: MysqlConnection, database: str) -> MysqlConnection:
    """Return the connection with another current database."""
    return replace(server, connection_db=str(database))


def _checked(value: Any) -> str:
    text = str(value)
    if len(text) > _VALUE_LIMIT:
        raise UsageError(f"a value has more than {_VALUE_LIMIT} characters")
    if "\0" in text:
        raise UsageError("a value must not contain a NUL character")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError("a value is no valid Unicode text") from None
    return text


def literal(value: Any) -> str:
    """Return a value as SQL text; each script switches backslash escapes off.

    Raises:
        UsageError: it can't be sent.
    """
    return "'" + _checked(value).replace("'", "''") + "'"


def identifier(value: Any) -> str:
    """Return a name as SQL.

    Raises:
        UsageError: it can't be a name.
    """
    text = _checked(value)
    if not text:
        raise UsageError("a name must not be empty")
    return "`" + text.replace("`", "``") + "`"


def word(value: Any, what: str) -> str:
    """Return a value that SQL takes without quotes, as a character set.

    Raises:
        UsageError: it has other characters than letters, digits and underscores.
    """
    if not _WORD.match(str(value)):
        raise UsageError(f"{what}: {str(value)[:40]!r} must be one word")
    return str(value)


def _option(name: str, value: Any) -> str:
    """Return a line of a file of options."""
    text = _checked(value).replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f'{name}="{text}"\n'


@contextmanager
def _options_file(server: MysqlConnection) -> Iterator[str]:
    """Write the connection into a file that only this user may read; yield its path."""
    text = ""
    if server.connection_default_file:
        path = Path(str(server.connection_default_file))
        if not path.is_file() or "\n" in str(path):
            raise UsageError(f"connection_default_file: there is no file {str(path)[:200]!r}")
        text = f"!include {path}\n"
    text += "[client]\n"
    for name, value in (
        ("host", server.connection_host),
        ("port", server.connection_port),
        ("user", server.connection_user),
        ("password", server.connection_pass),
        ("socket", server.connection_unix_socket),
    ):
        if value not in (None, ""):
            text += _option(name, value)
    text += f"default-character-set={word(server.connection_charset or 'utf8mb4', 'charset')}\n"
    if server.connection_db:
        text += f"[mysql]\n{_option('database', server.connection_db)}"
    handle, name = tempfile.mkstemp(prefix="catena-mysql-", suffix=".cnf")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        yield name
    finally:
        Path(name).unlink()


def find() -> str:
    """Return the path of the client.

    Raises:
        NoMysqlError: it is not installed.
    """
    for name in _NAMES:
        if shutil.which(name, path=os.defpath + ":/usr/local/bin"):
            return programs.find(name, _PACKAGE)
    raise NoMysqlError(
        f"neither mariadb nor mysql is available on this host: install the package {_PACKAGE}"
    )


def _complaint(server: MysqlConnection, stderr: str, secret: bool) -> CommandExecutionError:
    match = _ERROR.search(stderr)
    told = " ".join(stderr[match.end() if match else 0 :].split())[:_TOLD]
    if secret:
        # The server repeats the statement from the place of an error on.
        told = told.partition(" near '")[0]
    code = match.group(1) if match else ""
    if code in _DOWN:
        place = server.connection_host or "this host"
        return NoMysqlError(
            f"the database server on {place} does not answer: MySQL Error {code}: {told}. Start "
            "the server first; if it takes long to start, add "
            "`retry: {attempts: 5, interval: 10}` to the state"
        )
    return MysqlError(code, told or "the client printed nothing")


def _script(statements: Sequence[str], quoted: bool = True) -> str:
    """Return the client's input for some statements.

    Args:
        statements: each one statement.
        quoted: their values are quoted by `literal`; otherwise the server's own mode applies.
    """
    # The other modes stay: without NO_AUTO_CREATE_USER, GRANT would make users.
    mode = "SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_BACKSLASH_ESCAPES');"
    lines = [mode] if quoted else []
    for statement in statements:
        digits = _checked(statement).encode("utf-8").hex()
        lines.append(f"SET @catena = CONVERT(0x{digits} USING utf8mb4);")
        lines.append("PREPARE catena FROM @catena; EXECUTE catena;")
    lines.append(f"SELECT ROW_COUNT() AS `{_END}`;")
    return "\n".join(lines) + "\n"


def _run(
    context: Context, server: MysqlConnection, script: str, secret: bool = False
) -> Tuple[str, int]:
    """Run a script; return its output and the number of changed rows.

    Raises:
        NoMysqlError: no server answers, or the client is not installed.
        MysqlError: the server refuses a statement.
    """
    program = find()
    with _options_file(server) as path:
        words = [program, f"--defaults-file={path}", "--batch", "--connect-timeout=20"]
        options = RunOptions(
            python_shell=False,
            stdin=script,
            cwd="/",
            timeout=_DEADLINE,
            env={"LC_ALL": "C"},
            rstrip=False,
            output_limit=_OUTPUT_LIMIT,
        )
        ran = run(context, words, options)
    if ran.timed_out:
        raise CommandExecutionError(f"the client did not end within {_DEADLINE} seconds")
    if ran.retcode:
        raise _complaint(server, ran.stderr or ran.stdout, secret)
    answer, mark, count = ran.stdout.rpartition(f"{_END}\n")
    if not mark or not re.fullmatch(r"-?\d+\n", count):
        raise CommandExecutionError(
            f"the answer of the server is incomplete: it is longer than {_OUTPUT_LIMIT} bytes"
        )
    return answer, int(count)


def _cell(text: str) -> Optional[str]:
    if text == "NULL":
        return None
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match.group(1), match.group(1)), text)


@dataclass(frozen=True)
class StatementAnswer:
    """The result of a statement."""

    #: Names of the columns; empty if it has no rows.
    columns: Tuple[str, ...] = ()
    rows: Tuple[Tuple[Optional[str], ...], ...] = ()
    #: Number of changed rows; -1: it changes none.
    affected: int = -1

    def records(self) -> List[Dict[str, str]]:
        """Return the rows by column; null is ""."""
        return [
            dict(zip(self.columns, ("" if cell is None else cell for cell in row)))
            for row in self.rows
        ]


def _answer(found: Tuple[str, int]) -> StatementAnswer:
    lines = found[0].split("\n")[:-1]
    table = tuple(tuple(_cell(cell) for cell in line.split("\t")) for line in lines)
    if not table:
        return StatementAnswer(affected=found[1])
    return StatementAnswer(tuple(str(cell) for cell in table[0]), table[1:], found[1])


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


def ask(context: Context, server: MysqlConnection, query: str) -> List[Dict[str, str]]:
    """Return the rows of a query whose values are quoted; null is "".

    Raises:
        NoMysqlError: no server answers, or the client is not installed.
        MysqlError: the server refuses.
    """
    known: Optional[Dict[Any, StatementAnswer]] = context.scratch.get(_ANSWERS)
    script = _script([query])
    if known is None:
        return _answer(_run(context, server, script)).records()
    key = (server, query)
    if key not in known:
        known[key] = _answer(_run(context, server, script))
    return known[key].records()


def act(
    context: Context,
    server: MysqlConnection,
    statements: Sequence[str],
    *,
    secret: bool = False,
    quoted: bool = True,
) -> StatementAnswer:
    """Run statements whose values are quoted; return the result of the last one.

    Args:
        context: the call's context.
        server: the connection.
        statements: each one statement.
        secret: they contain a password, so an error must not repeat them.
        quoted: as of `_script`.

    Raises:
        as `ask`.
    """
    if _ANSWERS in context.scratch:
        context.scratch[_ANSWERS] = {}
    return _answer(_run(context, server, _script(statements, quoted), secret))


def is_unknown_database(problem: CommandExecutionError) -> bool:
    """Return whether an error says that there is no such database."""
    return isinstance(problem, MysqlError) and problem.code == _UNKNOWN_DATABASE
