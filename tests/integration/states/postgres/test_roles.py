"""postgres_user and postgres_group against a real server."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from catena.core.context import Context
from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.postgres import psql
from catena.modules.shared.command import process
from tests.integration.states.postgres.conftest import RUNAS, Database, Fresh

#: Names that are SQL, options or commands of psql if they are not quoted.
HOSTILE = (
    'a"; DROP ROLE test; --',
    "o'hara",
    "back\\slash' \\! touch /nonexistent",
    "two\nlines",
    "--version",
    "host=example.org",
    ":name :'name' :\"name\"",
    "$$x$$ %I",
    "größe",
)


def _stored(database: Database, role: str) -> str:
    found = database.call("role_get", role, return_password=True)
    return str(found["password"])


def test_user_is_created_changed_and_removed_once(database: Database, fresh: Fresh) -> None:
    name, group = fresh("app"), fresh("readers")
    assert database.state("postgres_group.present", group).changes == {group: "Present"}
    wanted: dict[str, Any] = {"createdb": True, "password": "geheim", "groups": group}
    made = database.state("postgres_user.present", name, **wanted)
    assert (made.result, made.changes) == (True, {name: "Present"})
    assert made.comment == f"The user {name} has been created"
    again = database.state("postgres_user.present", name, **wanted)
    assert (again.result, again.changes) == (True, {})
    assert again.comment == f"User {name} is already present"
    found = database.call("user_list")[name]
    assert (found["can login"], found["can create databases"]) == (True, True)
    assert found["groups"] == [group]
    assert not database.call("user_list")[group]["can login"]

    changed = database.state("postgres_user.present", name, createdb=False, superuser="no")
    assert changed.changes == {name: {"createdb": False}}
    assert changed.comment == f"The user {name} has been updated"
    gone = database.state("postgres_user.absent", name)
    assert (gone.result, gone.changes) == (True, {name: "Absent"})
    again = database.state("postgres_user.absent", name)
    assert (again.result, again.changes) == (True, {})
    assert again.comment == f"User {name} is not present, so it cannot be removed"


@pytest.mark.parametrize("method", [None, True, False, "md5", "scram-sha-256"])
def test_password_is_compared_by_its_stored_form(
    database: Database, fresh: Fresh, method: Any
) -> None:
    name = fresh("role")
    wanted = {"password": "pä$$ 'w\\ord", "encrypted": method}
    database.state("postgres_user.present", name, **wanted)
    first = _stored(database, name)
    assert first.startswith("md5" if method == "md5" else "SCRAM-SHA-256$")
    assert database.state("postgres_user.present", name, **wanted).changes == {}
    assert _stored(database, name) == first
    found = database.state("postgres_user.present", name, password="other", encrypted=method)
    assert found.changes == {name: {"password": True}}
    assert _stored(database, name) != first


def test_stored_form_that_the_server_made_is_recognised(database: Database, fresh: Fresh) -> None:
    for method in ("md5", "scram-sha-256"):
        name = fresh("role")
        database.state("postgres_user.present", name)
        server = psql.connection(database.context, {"runas": RUNAS})[0]
        psql.act(
            database.context,
            server,
            [f"SET LOCAL password_encryption = '{method}'", "ALTER ROLE :\"n\" PASSWORD :'p'"],
            {"n": name, "p": "Ⅸ\u00a0straße"},
        )
        found = database.state("postgres_user.present", name, password="Ⅸ\u00a0straße")
        assert (found.result, found.changes) == (True, {})


def test_other_method_stores_the_password_again(database: Database, fresh: Fresh) -> None:
    name = fresh("role")
    database.state("postgres_user.present", name, password="x", encrypted="md5")
    found = database.state("postgres_user.present", name, password="x", encrypted="scram-sha-256")
    assert found.changes == {name: {"password": True}}
    stored = _stored(database, name)
    assert stored.startswith("SCRAM-SHA-256$")
    assert database.state("postgres_user.present", name, password=stored).changes == {}


def test_default_password_is_for_new_roles_only(database: Database, fresh: Fresh) -> None:
    name = fresh("role")
    database.state("postgres_user.present", name, default_password="first")
    stored = _stored(database, name)
    assert database.state("postgres_user.present", name, default_password="other").changes == {}
    assert _stored(database, name) == stored


def test_refreshed_password_is_set_at_each_run(database: Database, fresh: Fresh) -> None:
    name = fresh("role")
    for _ in range(2):
        found = database.state("postgres_user.present", name, password="x", refresh_password=True)
        assert found.changes
    assert found.changes == {name: {"password": True}}


@pytest.mark.parametrize("moment", ["2031-05-06", "2031-05-06 07:08:09+00", "infinity"])
def test_end_of_a_password_is_compared_as_the_server_reads_it(
    database: Database, fresh: Fresh, moment: str
) -> None:
    name = fresh("role")
    database.state("postgres_user.present", name)
    found = database.state("postgres_user.present", name, valid_until=moment)
    assert found.changes == {name: {"valid_until": moment}}
    assert database.state("postgres_user.present", name, valid_until=moment).changes == {}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_name_stays_a_name(database: Database, fresh: Fresh, name: str) -> None:
    group = f"{name}{fresh('')}"
    assert database.state("postgres_group.present", group).result is True
    made = database.state("postgres_user.present", name, groups=[group], password=name)
    assert (made.result, made.changes) == (True, {name: "Present"})
    assert database.call("user_list")[name]["groups"] == [group]
    again = database.state("postgres_user.present", name, groups=[group], password=name)
    assert (again.result, again.changes) == (True, {})
    for state, role in (("postgres_user.absent", name), ("postgres_group.absent", group)):
        assert database.state(state, role).changes == {role: "Absent"}
    assert database.call("user_exists", "test")


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800"])
def test_impossible_name_is_refused(database: Database, name: str) -> None:
    found = database.state("postgres_user.present", name)
    assert found.result is False
    assert found.changes == {}


def test_test_mode_reports_and_changes_nothing(database: Database, fresh: Fresh) -> None:
    name = fresh("role")
    found = database.state("postgres_user.present", name, test=True, password="x")
    assert (found.result, found.changes) == (None, {})
    assert found.comment == f"User {name} is set to be created"
    assert not database.call("user_exists", name)
    database.state("postgres_user.present", name, password="x")
    found = database.state("postgres_user.present", name, test=True, password="y", createdb=True)
    assert (found.result, found.changes) == (None, {name: {"createdb": True, "password": True}})
    assert found.comment == f"User {name} is set to be updated"
    found = database.state("postgres_user.present", name, test=True, password="x")
    assert (found.result, found.changes) == (True, {})
    found = database.state("postgres_user.absent", name, test=True)
    assert (found.result, found.comment) == (None, f"User {name} is set to be removed")
    assert database.call("user_exists", name)


def test_no_password_is_in_arguments_results_or_errors(
    database: Database, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, name = "Tr0ub4dor", fresh("role")
    commands: list[tuple[str, ...]] = []
    start = process._start

    def started(command: process.Command) -> Any:
        commands.append(command.argv)
        return start(command)

    monkeypatch.setattr(process, "_start", started)
    told = [
        database.state("postgres_user.present", name, password=secret, db_password=secret),
        database.state("postgres_user.present", name, password=secret * 2, connlimit=1),
        database.state("postgres_user.present", name, password=secret, groups=["none"]),
        database.state("postgres_user.present", name, password=secret, valid_until="never"),
    ]
    assert [one.result for one in told] == [True, True, False, False]
    assert secret not in repr(told)
    assert commands
    assert not [one for argv in commands for one in argv if secret in one or name in one]
    assert "SCRAM-SHA-256$" not in repr(commands) + repr(told)


def test_role_is_changed_completely_or_not_at_all(database: Database, fresh: Fresh) -> None:
    name = fresh("role")
    found = database.state("postgres_user.present", name, groups=["no such group"])
    assert found.result is False
    assert found.comment.startswith(f"Failed to create user {name}: ")
    assert '"no such group" does not exist' in found.comment
    assert not database.call("user_exists", name)


def test_role_that_owns_something_is_not_removed(database: Database, fresh: Fresh) -> None:
    name = fresh("role")
    database.state("postgres_user.present", name)
    database.state("postgres_database.present", fresh("base"), owner=name)
    found = database.state("postgres_user.absent", name)
    assert found.result is False
    assert "cannot be dropped because some objects depend on it" in found.comment


def test_server_that_is_down_is_named_with_a_hint(database: Database, tmp_path: Path) -> None:
    folder = str(tmp_path)
    found = database.state("postgres_user.present", "x", db_host=folder)
    assert found.result is False
    assert f"PostgreSQL on {folder} does not answer" in found.comment
    assert "retry: {attempts: 5, interval: 10}" in found.comment
    found = database.state("postgres_user.present", "x", test=True, db_host=folder)
    assert found.result is None
    assert found.comment.startswith("User x is set to be created, unless")


def test_missing_program_is_named_with_its_package(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    found = database.state("postgres_user.present", "x")
    assert found.result is False
    assert "psql is not available on this host: install the package postgresql-client" in (
        found.comment
    )


def test_unchanged_states_of_one_sequence_ask_once(
    database: Database, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [fresh("role") for _ in range(5)]
    for name in names:
        database.state("postgres_user.present", name)
    runs: list[str] = []
    real = psql._run

    def run(context: Context, server: psql.PsqlConnection, script: str) -> str:
        runs.append(script)
        return real(context, server, script)

    monkeypatch.setattr(psql, "_run", run)
    with psql.remembering(database.context):
        for name in names:
            assert database.state("postgres_user.present", name).changes == {}
        assert len(runs) == 1
        assert database.state("postgres_user.absent", names[0]).changes
        assert not database.call("user_exists", names[0])
    assert "postgres.answers" not in database.context.scratch


def test_unknown_argument_and_method_are_refused(database: Database, fresh: Fresh) -> None:
    with pytest.raises(UsageError, match=r"'createbd'.*createdb"):
        database.call("user_create", fresh("role"), createbd=True)
    found = database.state("postgres_user.present", fresh("role"), encrypted="rot13")
    assert found.result is False
    assert "encrypted: 'rot13' is no method" in found.comment
    found = database.state("postgres_user.present", fresh("role"), createbd=True)
    assert found.warnings == (
        "postgres_user.present ignores the argument 'createbd'; did you mean 'createdb'?",
    )


def test_functions_report_what_is_not_there(database: Database, fresh: Fresh) -> None:
    name = fresh("role")
    assert database.call("user_create", name) is True
    assert database.call("user_create", name) is False
    assert database.call("user_remove", name) is True
    assert database.call("user_remove", name) is False
    with pytest.raises(CommandExecutionError, match=f"there is no role {name}"):
        database.call("user_update", name, createdb=True)


def test_hang_of_psql_ends_at_the_deadline(database: Database) -> None:
    opts = {**database.context.opts, "postgres.timeout": 0.3}
    slow = Database(database.context.with_(opts=opts))
    with pytest.raises(CommandExecutionError, match=r"psql did not end within 0\.3 seconds"):
        slow.call("psql_query", "SELECT pg_sleep(30)")
