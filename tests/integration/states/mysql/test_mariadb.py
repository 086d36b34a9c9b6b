"""mysql_user, mysql_database, mysql_grants and mysql_query against a real server."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.mysql import client
from catena.modules.shared.command import process
from tests.integration.states.mysql.conftest import Database, Fresh

#: Names that are SQL, options or client commands if they are not quoted.
HOSTILE = (
    "a'; DROP USER 'root'@'localhost'; --",
    'say "hi"',
    "back\\slash\\' \\! touch /x",
    "two\nlines\ndelimiter $$",
    "--version",
    "tick`s` `",
    "größe",
    "a_b%",
    "tab\there",
)


def test_user_is_added_changed_and_removed_once(database: Database, fresh: Fresh) -> None:
    name = fresh("app")
    found = database.state("mysql_user.present", name, test=True, password="geheim")
    assert (found.result, found.comment) == (None, f"User {name}@localhost is set to be added")
    made = database.state("mysql_user.present", name, password="geheim")
    assert (made.result, made.changes) == (True, {name: "Present"}), made
    assert made.comment == f"The user {name}@localhost has been added"
    again = database.state("mysql_user.present", name, password="geheim")
    assert (again.result, again.changes) == (True, {})
    told = f"User {name}@localhost is already present with the desired password"
    assert again.comment == told
    found = database.state("mysql_user.present", name, test=True, password="other")
    assert found.comment == f"Password for user {name}@localhost is set to be changed"
    changed = database.state("mysql_user.present", name, password="other")
    assert changed.changes == {name: "Updated"}
    assert changed.comment == f"Password for user {name}@localhost has been changed"
    words = {"connection_user": name, "connection_pass": "other"}
    assert database.call("version", **words).count(".") >= 1
    found = database.state("mysql_user.absent", name, test=True)
    assert (found.result, found.comment) == (None, f"User {name}@localhost is set to be removed")
    assert database.state("mysql_user.absent", name).changes == {name: "Absent"}
    again = database.state("mysql_user.absent", name)
    assert (again.result, again.changes) == (True, {})
    assert again.comment == f"User {name}@localhost is not present, so it cannot be removed"


@pytest.mark.parametrize(
    ("words", "ending"),
    [
        ({"allow_passwordless": True}, " with passwordless login"),
        ({"unix_socket": True}, ""),
        ({"password_hash": f"*{'0123456789' * 4}"}, " with the desired password hash"),
        ({"password": "x", "host": "192.0.2.%"}, " with the desired password"),
    ],
)
def test_each_way_to_log_in_is_recognised(
    database: Database, fresh: Fresh, words: dict[str, Any], ending: str
) -> None:
    name = fresh("user")
    for change in (True, False):
        found = database.state("mysql_user.present", name, **words)
        assert (found.result, bool(found.changes)) == (True, change), found
    host = words.get("host", "localhost")
    assert found.comment == f"User {name}@{host} is already present{ending}"
    changed = database.state("mysql_user.present", name, **{**words, "password": "y"})
    assert changed.changes == {name: "Updated"}
    changed = database.state("mysql_user.present", name, host=host, allow_passwordless=True)
    assert changed.comment == f"Password for user {name}@{host} has been cleared"


def test_user_without_a_password_must_be_allowed(database: Database, fresh: Fresh) -> None:
    found = database.state("mysql_user.present", fresh("user"))
    assert found.result is False
    assert found.comment == (
        "Either password or password_hash must be specified, unless allow_passwordless is True"
    )


def test_database_is_created_changed_and_removed_once(database: Database, fresh: Fresh) -> None:
    name = fresh("base")
    found = database.state("mysql_database.present", name, test=True)
    assert found.comment == f"Database {name} is not present and needs to be created"
    for change in (True, False):
        found = database.state("mysql_database.present", name, character_set="utf8mb4")
        assert (found.result, bool(found.changes)) == (True, change), found
    assert found.comment == f"Database {name} is already present"
    words: dict[str, Any] = {"character_set": "latin1", "collate": "latin1_bin"}
    found = database.state("mysql_database.present", name, test=True, **words)
    assert found.result is None
    assert found.comment.endswith(f"Database {name} is going to be updated")
    found = database.state("mysql_database.present", name, **words)
    assert found.changes["character_set"] == {"before": "utf8mb4", "now": "latin1"}
    assert found.changes["collate"]["now"] == "latin1_bin"
    assert database.state("mysql_database.present", name, **words).changes == {}
    assert database.state("mysql_database.absent", name).changes == {name: "Absent"}
    again = database.state("mysql_database.absent", name)
    assert (again.result, again.changes) == (True, {})
    assert again.comment == f"Database {name} is not present, so it cannot be removed"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_names(database: Database, fresh: Fresh, name: str) -> None:
    quoted = name.replace("`", "``")
    words: dict[str, Any] = {"grant": "SELECT, UPDATE", "database": f"`{quoted}`.*", "user": name}
    for change in (True, False):
        for fun, arguments in (
            ("mysql_user.present", {"password": name}),
            ("mysql_database.present", {}),
            ("mysql_grants.present", words),
        ):
            found = database.state(fun, name, **arguments)
            assert (found.result, bool(found.changes)) == (True, change), found
    assert name in database.call("db_list")
    assert {"User": name, "Host": "localhost"} in database.call("user_list")
    login = {"connection_user": name, "connection_pass": name, "connection_db": name}
    assert database.call("query", name, "SELECT DATABASE() AS d", **login)["results"] == [[name]]
    for change in (True, False):
        for fun, arguments in (
            ("mysql_grants.absent", words),
            ("mysql_database.absent", {}),
            ("mysql_user.absent", {}),
        ):
            found = database.state(fun, name, **arguments)
            assert (found.result, bool(found.changes)) == (True, change), found
    assert database.call("user_exists", "root")


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800"])
def test_impossible_name_is_refused(database: Database, name: str) -> None:
    for fun in ("mysql_database.present", "mysql_user.present"):
        words: dict[str, Any] = {"password": "x"} if fun.startswith("mysql_user") and name else {}
        assert database.state(fun, name, **words).result is False


@pytest.mark.parametrize(
    ("grant", "place", "more"),
    [
        ("SELECT,INSERT", "{db}.*", {}),
        ("ALL PRIVILEGES", "{db}.*", {}),
        ("ALL", "*.*", {}),
        ("SELECT", "*.*", {"grant_option": True}),
        ("SELECT (b, a), UPDATE (a)", "{db}.t", {}),
        ("select", "{db}.t", {"grant_option": True}),
        ("CREATE TEMPORARY TABLES, LOCK TABLES", "`{db}`.*", {}),
        ("EXECUTE", "PROCEDURE {db}.p", {}),
        ("SELECT", "{db}.*", {"escape": False}),
        ("SELECT", "{db}.*", {"ssl_option": [{"SSL": True}]}),
        ("SELECT", "{db}.*", {"revoke_first": True}),
        ("USAGE", "*.*", {}),
    ],
)
def test_grant_is_added_and_revoked_once(
    database: Database, fresh: Fresh, grant: str, place: str, more: dict[str, Any]
) -> None:
    name, base = fresh("user"), fresh("my_base")
    database.state("mysql_user.present", name, password="x")
    database.state("mysql_database.present", base)
    for statement in ("CREATE TABLE t (a int, b int)", "CREATE PROCEDURE p() SELECT 1"):
        database.call("query", base, statement)
    shown = place.format(db=base)
    words = {"grant": grant, "database": shown, "user": name, **more}
    is_usage = grant == "USAGE"
    if not is_usage:
        found = database.state("mysql_grants.present", "g", test=True, **words)
        assert (found.result, found.comment) == (None, "MySQL grant g is set to be created")
        made = database.state("mysql_grants.present", "g", **words)
        assert (made.result, made.changes) == (True, {"g": "Present"}), made
        assert made.comment == f"Grant {grant} on {shown} to {name}@localhost has been added"
    again = database.state("mysql_grants.present", "g", **words)
    assert (again.result, again.changes) == (True, {})
    assert again.comment == f"Grant {grant} on {shown} to {name}@localhost is already present"
    if is_usage:
        return
    only_added = ("ssl_option", "revoke_first")
    left = {key: value for key, value in words.items() if key not in only_added}
    gone = database.state("mysql_grants.absent", "g", **left)
    assert (gone.result, gone.changes) == (True, {"g": "Absent"}), gone
    again = database.state("mysql_grants.absent", "g", **left)
    assert (again.result, again.changes) == (True, {})


def test_first_revoked_grant_leaves_the_wanted_one(database: Database, fresh: Fresh) -> None:
    name, base = fresh("user"), fresh("base")
    database.state("mysql_user.present", name, password="x")
    words: dict[str, Any] = {"database": f"{base}.*", "user": name}
    database.state("mysql_grants.present", "g", grant="ALL", **words)
    assert database.state("mysql_grants.present", "g", grant="SELECT", **words).changes == {}
    database.call("grant_revoke", "UPDATE", f"{base}.*", name)
    found = database.state(
        "mysql_grants.present", "g", grant="SELECT,UPDATE", revoke_first=True, **words
    )
    assert found.changes == {"g": "Present"}
    held = [one for one in database.call("user_grants", name) if base in one]
    assert held == [f"GRANT SELECT, UPDATE ON `{base}`.* TO `{name}`@`localhost`"]
    assert "IDENTIFIED" not in str(database.call("user_grants", name))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"grant": "SELECT; DROP", "database": "a.*", "user": "u"}, "is no privilege"),
        ({"grant": "SELECT ON a.* TO u; --", "database": "a.*", "user": "u"}, "is no privilege"),
        ({"grant": "SELECT", "database": "a", "user": "u"}, "must have the form"),
        ({"grant": "SELECT", "database": "*.t", "user": "u"}, "must have the form"),
        ({"grant": "SELECT", "database": "a.*"}, "user is missing"),
        ({"grant": "SELECT", "database": "a.*", "user": "none here"}, "none here@localhost"),
        ({"grant": "FLY", "database": "a.*", "user": "root"}, "MySQL Error 1064"),
    ],
)
def test_bad_grant_fails(database: Database, words: dict[str, Any], told: str) -> None:
    found = database.state("mysql_grants.present", "g", **words)
    assert found.result is False
    assert told in found.comment


def test_query_returns_rows_or_their_number(database: Database, fresh: Fresh) -> None:
    base = fresh("base")
    database.state("mysql_database.present", base)
    assert database.call("query", base, "CREATE TABLE t (a int, b text)")["rows affected"] == 0
    text = "INSERT INTO t VALUES (1, 'a\tb\nc'), (2, NULL), (3, ';')"
    assert database.call("query", base, text)["rows affected"] == 3
    found = database.call("query", base, "SELECT * FROM t ORDER BY a")
    assert found["columns"] == ["a", "b"]
    assert found["results"] == [["1", "a\tb\nc"], ["2", None], ["3", ";"]]
    assert found["rows returned"] == 3
    assert database.call("query", base, "SELECT * FROM t WHERE a > 9")["results"] == []
    with pytest.raises(CommandExecutionError, match="MySQL Error 1064"):
        database.call("query", base, "SELECT 1 \\! touch /nonexistent/x")
    assert database.call("db_tables", base) == ["t"]
    assert database.call("query", base, "SELECT 'a\\nb' AS x")["results"] == [["a\nb"]]


def test_state_of_a_query_stores_its_result_once(
    database: Database, fresh: Fresh, tmp_path: Path
) -> None:
    base, path = fresh("base"), tmp_path / "out"
    words: dict[str, Any] = {"database": base, "query": "SELECT 7 AS n", "output": str(path)}
    missing = database.state("mysql_query.run", "q", **words)
    assert (missing.result, missing.comment) == (None, f"Database {base} is not present")
    database.state("mysql_database.present", base)
    found = database.state("mysql_query.run", "q", test=True, **words)
    assert found.comment == f"Query would execute, storing result in file: {path}"
    assert not path.exists()
    found = database.state("mysql_query.run", "q", **words)
    assert (found.result, found.changes) == (True, {"query": f"Executed. Output into {path}"})
    assert path.read_text() == "n:7\n"
    again = database.state("mysql_query.run", "q", overwrite=False, **words)
    assert (again.result, again.changes) == (True, {})
    assert again.comment == f"No execution needed. File {path} already set"
    words["output"] = "grain"
    assert "needs the grain" in database.state("mysql_query.run", "q", **words).comment
    words["output"] = "relative"
    assert "no absolute path" in database.state("mysql_query.run", "q", **words).comment


def test_no_password_is_in_arguments_results_or_errors(
    database: Database, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, name = "Tr0ub4'dor\\", fresh("user")
    commands: list[tuple[str, ...]] = []
    modes: list[int] = []
    start = process._start

    def started(command: process.Command) -> Any:
        commands.append(command.argv)
        (path,) = (one.partition("=")[2] for one in command.argv if "defaults-file" in one)
        modes.append(stat.S_IMODE(Path(path).stat().st_mode))
        return start(command)

    monkeypatch.setattr(process, "_start", started)
    told: list[Any] = [
        database.state("mysql_user.present", name, password=secret),
        database.state("mysql_user.present", name, password=secret, connection_pass=secret),
        database.state("mysql_user.present", f"{name}b", password=secret, auth_plugin="none"),
        database.call("user_info", name),
        database.call("user_grants", name),
    ]
    assert [one.result for one in told[:3]] == [True, False, False]
    assert "Access denied" in told[1].comment
    assert "Tr0ub4" not in repr(told) + repr(commands)
    assert set(modes) == {0o600}
    assert not [one for argv in commands for one in argv if name in one]
    paths = [one.partition("=")[2] for argv in commands for one in argv if "defaults-" in one]
    assert not [one for one in paths if Path(one).exists()]


def test_server_that_is_down_is_named_with_a_hint(database: Database, tmp_path: Path) -> None:
    words: dict[str, Any] = {"connection_unix_socket": f"{tmp_path}/none", "password": "x"}
    found = database.state("mysql_user.present", "x", **words)
    assert found.result is False
    assert "the database server on localhost does not answer: MySQL Error 2002" in found.comment
    assert "retry: {attempts: 5, interval: 10}" in found.comment
    found = database.state("mysql_user.present", "x", test=True, **words)
    assert found.result is None
    assert found.comment.startswith("User x@localhost is set to be added, unless")


def test_missing_program_is_named_with_its_package(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    found = database.state("mysql_database.present", "x")
    assert found.result is False
    assert "install the package mariadb-client (Debian)" in found.comment


def test_file_of_options_replaces_the_configuration(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "my.cnf"
    socket = database.context.opts["mysql.unix_socket"]
    path.write_text(f"[client]\nuser=root\nsocket={socket}\n")
    bare = Database(database.context.with_(opts={"id": "minion"}))
    assert bare.call("version", connection_default_file=str(path))
    with pytest.raises(UsageError, match="there is no file"):
        bare.call("version", connection_default_file=f"{path}2")


def test_unchanged_states_of_one_sequence_ask_once(
    database: Database, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [fresh("user") for _ in range(3)]
    for name in names:
        database.state("mysql_user.present", name, password="x")
    runs: list[str] = []
    real = client._run

    def run(*given: Any) -> Any:
        runs.append(given[2])
        return real(*given)

    monkeypatch.setattr(client, "_run", run)
    with client.remembering(database.context):
        for name in names:
            assert database.state("mysql_user.present", name, password="x").changes == {}
        assert len(runs) == 1
        database.state("mysql_user.absent", names[0])
        assert not database.call("user_exists", names[0])


def test_unknown_argument_is_refused(database: Database) -> None:
    with pytest.raises(UsageError, match="connection_hots"):
        database.call("version", connection_hots="x")
    found = database.state("mysql_user.absent", "nobody", connection_hots="x")
    assert found.warnings == ()
