"""mysql_query.*: SQL statements that a state runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.frozen import dataclass
from catena.core.plugins import state
from catena.core.types import StateResult
from catena.modules.shared.arguments import truth
from catena.states.answers import done, would
from catena.states.mysql.server import attempt, taken


@dataclass(frozen=True)
class QueryOptions:
    """Where the result goes, with Salt's names."""

    #: "grain", or the path of a file.
    output: Optional[str] = None
    grain: Optional[str] = None
    key: Optional[str] = None
    #: Run the query although its result is there.
    overwrite: Any = True
    check_db_exists: Any = True
    #: Accepted for Salt's sake; the client has no such flags.
    client_flags: Any = None


def _place(options: QueryOptions) -> str:
    """Return the words for where the result goes, "" for nowhere.

    Raises:
        UsageError: the grain or an absolute path is missing.
    """
    if options.output is None:
        return ""
    if options.output != "grain":
        if not Path(options.output).is_absolute():
            raise UsageError(f"output: {options.output[:80]!r} is no absolute path")
        return options.output
    if not options.grain:
        raise UsageError("Error: output type 'grain' needs the grain parameter")
    return options.grain if options.key is None else f"{options.grain}:{options.key}"


def _is_there(context: Context, options: QueryOptions) -> bool:
    """Return whether a result was stored before."""
    if options.output is None:
        return False
    if options.output != "grain":
        return Path(options.output).is_file()
    if options.key is None:
        return options.grain in context.grains
    value = context.grains.get(str(options.grain))
    return isinstance(value, Mapping) and options.key in value


@state()
def run(
    context: Context, /, name: str, database: str, query: str, **arguments: Any
) -> StateResult:
    """Run an SQL statement; with overwrite=False only if its result is not stored yet.

    Args:
        context: the call's context.
        name: of the state.
        database: the current database.
        query: one statement.
        arguments: output ("grain" or the path of a file), grain, key, overwrite (True),
            check_db_exists (True); connection_host, connection_port, connection_user,
            connection_pass, connection_unix_socket, connection_default_file, connection_charset.
    """
    options, words, warnings = taken(QueryOptions, arguments, "mysql_query.run")
    return attempt(
        context,
        lambda: _run(context, database, query, options, words),
        "Query would execute",
        warnings,
    )


def _run(
    context: Context, database: str, query: str, options: QueryOptions, words: Mapping[str, Any]
) -> StateResult:
    place = _place(options)
    kind = "Grain" if options.output == "grain" else "File"
    if not truth(options.overwrite) and _is_there(context, options):
        return done(f"No execution needed. {kind} {place} already set")
    exists = not truth(options.check_db_exists)
    if not exists and not context.call("mysql.db_exists", database, **words):
        return would(f"Database {database} is not present")
    if context.test:
        if not place:
            return would("Query would execute, not storing result")
        return would(f"Query would execute, storing result in {kind.lower()}: {place}")
    found = context.call("mysql.query", database, query, **words)
    if "results" in found:
        found["results"] = [dict(zip(found["columns"], row)) for row in found["results"]]
    _store(context, found, options)
    told = "Executed"
    if place:
        told += f". Output into {'grain: ' if kind == 'Grain' else ''}{place}"
    return done(str(found), {"query": told})


def _store(context: Context, found: Dict[str, Any], options: QueryOptions) -> None:
    """Store a result where the options say."""
    if options.output is None:
        return
    if options.output == "grain":
        value: Any = found
        if options.key is not None:
            old = context.grains.get(str(options.grain))
            value = {**(old if isinstance(old, Mapping) else {}), options.key: found}
        context.call("grains.setval", options.grain, value)
        return
    from catena.modules.file.content import encode, write

    pairs: List[Tuple[str, Any]] = [
        pair for row in found.get("results", [found]) for pair in row.items()
    ]
    text = "".join(f"{column}:{value}\n" for column, value in pairs)
    write(Path(options.output), encode(text), "0600")
