"""Schemas, languages, extensions, tablespaces and privileges against a real server."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import CommandExecutionError, UsageError
from catena.modules.postgres import extensions, psql
from tests.integration.states.postgres.conftest import RUNAS, Database, Fresh
from tests.integration.states.postgres.test_roles import HOSTILE
from tests.support.postgres_server import server


def _database(database: Database, fresh: Fresh) -> str:
    name = fresh("base")
    database.state("postgres_database.present", name)
    return name


def _run(database: Database, name: str, *statements: str) -> None:
    connection = psql.connection(database.context, {"runas": RUNAS, "maintenance_db": name})[0]
    psql.act(database.context, connection, statements)


def test_schema_is_created_and_removed_once(database: Database, fresh: Fresh) -> None:
    base, owner = _database(database, fresh), fresh("owner")
    database.state("postgres_user.present", owner)
    place: dict[str, Any] = {"dbname": base, "owner": owner}
    found = database.state("postgres_schema.present", "sch", test=True, **place)
    assert found.result is None
    assert found.comment == f"Schema sch is set to be created in database {base}."
    found = database.state("postgres_schema.present", "sch", **place)
    assert (found.result, found.changes) == (True, {"sch": "Present"})
    assert found.comment == f"Schema sch has been created in database {base}"
    again = database.state("postgres_schema.present", "sch", **place)
    assert (again.result, again.changes) == (True, {})
    assert again.comment == f"Schema sch already exists in database {base}"
    assert database.call("schema_get", base, "sch") == {"acl": "", "owner": owner}
    gone = database.state("postgres_schema.absent", "sch", dbname=base)
    assert gone.changes == {"sch": "Absent"}
    again = database.state("postgres_schema.absent", "sch", dbname=base)
    assert (again.result, again.changes) == (True, {})


def test_schema_that_is_not_empty_is_kept(database: Database, fresh: Fresh) -> None:
    base = _database(database, fresh)
    _run(database, base, "CREATE SCHEMA s", "CREATE TABLE s.t ()")
    found = database.state("postgres_schema.absent", "s", dbname=base)
    assert found.result is False
    assert "cannot drop schema s" in found.comment


def test_missing_database_is_no_failure_in_test_mode(database: Database) -> None:
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("postgres_schema.present", {"dbname": "later"}),
        ("postgres_extension.present", {"maintenance_db": "later"}),
        ("postgres_language.present", {"maintenance_db": "later"}),
        (
            "postgres_privileges.present",
            {
                "object_name": "t",
                "object_type": "table",
                "privileges": ["ALL"],
                "maintenance_db": "later",
            },
        ),
    )
    for fun, words in calls:
        assert database.state(fun, "x", test=True, **words).result is None, fun
        found = database.state(fun, "x", **words)
        assert found.result is False, fun
        assert 'database "later" does not exist' in found.comment


def test_extension_is_installed_moved_and_removed_once(database: Database, fresh: Fresh) -> None:
    base = _database(database, fresh)
    if not database.call("is_available_extension", "citext"):
        pytest.skip("the server lacks the extension citext (postgresql-contrib)")
    _run(database, base, "CREATE SCHEMA other")
    place: dict[str, Any] = {"maintenance_db": base}
    found = database.state("postgres_extension.present", "citext", test=True, **place)
    assert found.comment == "Extension citext is set to be installed"
    found = database.state("postgres_extension.present", "citext", ext_version="1.5", **place)
    assert (found.result, found.changes) == (True, {"citext": "Installed"})
    assert found.comment == "The extension citext has been installed"
    again = database.state("postgres_extension.present", "citext", **place)
    assert (again.result, again.changes) == (True, {})
    assert again.comment == "Extension citext is already present"
    wanted: dict[str, Any] = {"schema": "other", "ext_version": "1.6"}
    assert database.call("create_metadata", "citext", **wanted, **place) == [
        extensions.INSTALLED,
        extensions.TO_UPGRADE,
        extensions.TO_MOVE,
    ]
    moved = database.state("postgres_extension.present", "citext", **wanted, **place)
    assert moved.changes == {"citext": "Upgraded"}
    assert not database.state("postgres_extension.present", "citext", **wanted, **place).changes
    gone = database.state("postgres_extension.absent", "citext", **place)
    assert gone.changes == {"citext": "Absent"}
    assert database.state("postgres_extension.absent", "citext", **place).changes == {}


def test_extension_that_the_server_lacks_fails(database: Database) -> None:
    found = database.state("postgres_extension.present", 'no"ne')
    assert found.result is False
    assert found.comment == (
        'Failed to install extension no"ne: the server has no extension no"ne: install the '
        "package that contains it"
    )


def test_language_is_removed_and_added_once(database: Database, fresh: Fresh) -> None:
    place: dict[str, Any] = {"maintenance_db": _database(database, fresh)}
    gone = database.state("postgres_language.absent", "plpgsql", **place)
    assert gone.changes == {"plpgsql": "Absent"}
    assert database.state("postgres_language.absent", "plpgsql", **place).changes == {}
    found = database.state("postgres_language.present", "plpgsql", **place)
    assert (found.result, found.changes) == (True, {"plpgsql": "Present"})
    again = database.state("postgres_language.present", "plpgsql", **place)
    assert (again.result, again.changes) == (True, {})
    assert again.comment == "Language plpgsql is already installed"


def test_tablespace_is_created_changed_and_removed_once(database: Database, fresh: Fresh) -> None:
    name, owner = fresh("space"), fresh("owner")
    folder = Path(server().folder, f"a b {name}")
    folder.mkdir()
    if RUNAS:
        shutil.chown(folder, RUNAS)
    database.state("postgres_user.present", owner)
    wanted: dict[str, Any] = {"directory": f"{folder}/", "options": {"seq_page_cost": 1.5}}
    for change in (True, False):
        found = database.state("postgres_tablespace.present", name, **wanted)
        assert (found.result, bool(found.changes)) == (True, change), found
    wanted = {
        **wanted,
        "owner": owner,
        "options": {"random_page_cost": 3, "seq_page_cost": 1.5},
    }
    found = database.state("postgres_tablespace.present", name, test=True, **wanted)
    assert found.comment == f"Tablespace {name} owner and opts to be altered"
    found = database.state("postgres_tablespace.present", name, **wanted)
    assert found.changes == {name: {"owner": owner, "options": {"random_page_cost": 3}}}
    assert database.state("postgres_tablespace.present", name, **wanted).changes == {}
    found = database.state("postgres_tablespace.present", name, directory="/elsewhere")
    assert found.result is False
    assert "not at the right location" in found.comment
    gone = database.state("postgres_tablespace.absent", name)
    assert gone.changes == {name: "Absent"}
    assert database.state("postgres_tablespace.absent", name).changes == {}


def test_option_of_a_tablespace_is_no_sql(database: Database, fresh: Fresh) -> None:
    for options in ({"a) ; DROP ROLE x; --": 1}, {"seq_page_cost": "1); DROP ROLE x; --"}):
        found = database.state(
            "postgres_tablespace.present", fresh("x"), directory="/x", options=options
        )
        assert found.result is False
        assert "needs a number" in found.comment


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_names(database: Database, fresh: Fresh, name: str) -> None:
    base = _database(database, fresh)
    database.state("postgres_user.present", name)
    place: dict[str, Any] = {"maintenance_db": base}
    grant: dict[str, Any] = {
        "object_name": name,
        "object_type": "schema",
        "privileges": ["USAGE"],
        **place,
    }
    for change in (True, False):
        found = database.state("postgres_schema.present", name, dbname=base, owner=name)
        assert (found.result, bool(found.changes)) == (True, change), found
    database.state("postgres_user.present", f"{name}2")
    for change in (True, False):
        found = database.state("postgres_privileges.present", f"{name}2", **grant)
        assert (found.result, bool(found.changes)) == (True, change), found
    for change in (True, False):
        found = database.state("postgres_privileges.absent", f"{name}2", **grant)
        assert (found.result, bool(found.changes)) == (True, change), found
    assert database.state("postgres_schema.absent", name, dbname=base).changes
    for role in (name, f"{name}2"):
        assert database.state("postgres_user.absent", role).changes == {role: "Absent"}


@pytest.mark.parametrize(
    ("kind", "name", "privileges"),
    [
        ("table", "T t", ["SELECT", "INSERT"]),
        ("table", "v", ["SELECT"]),
        ("table", "T t", ["ALL"]),
        ("table", "ALL", ["ALL"]),
        ("table", "ALL", ["select"]),
        ("sequence", "q", ["USAGE"]),
        ("sequence", "ALL", ["ALL"]),
        ("function", "f(integer)", ["EXECUTE"]),
        ("function", "ALL", ["ALL"]),
        ("schema", "S s", ["USAGE", "CREATE"]),
        ("language", "plpgsql", ["USAGE"]),
        ("tablespace", "pg_default", ["CREATE"]),
    ],
)
@pytest.mark.parametrize("schema", ["public", "S s"])
def test_privilege_is_granted_and_revoked_once(
    database: Database, fresh: Fresh, schema: str, kind: str, name: str, privileges: list[str]
) -> None:
    base, role = _database(database, fresh), fresh("role")
    database.state("postgres_user.present", role)
    _run(
        database,
        base,
        'CREATE SCHEMA "S s"',
        f'SET LOCAL search_path = "{schema}"',
        'CREATE TABLE "T t" (a int)',
        "CREATE TABLE u (a int)",
        "CREATE VIEW v AS SELECT 1 AS x",
        "CREATE SEQUENCE q",
        "CREATE FUNCTION f(a int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
    )
    words: dict[str, Any] = {
        "object_name": name,
        "object_type": kind,
        "privileges": privileges,
        "prepend": schema,
        "maintenance_db": base,
    }
    shown = ",".join(privileges)
    found = database.state("postgres_privileges.present", role, test=True, **words)
    assert found.result is None
    assert found.comment == f"The privilege(s): {shown} are set to be granted to {role}"
    found = database.state("postgres_privileges.present", role, **words)
    assert (found.result, found.changes) == (True, {role: "Present"}), found
    again = database.state("postgres_privileges.present", role, **words)
    assert (again.result, again.changes) == (True, {})
    assert again.comment == "The requested privilege(s) are already set"
    option = database.state("postgres_privileges.present", role, grant_option=True, **words)
    assert option.changes == {role: "Present"}
    option = database.state("postgres_privileges.present", role, grant_option=True, **words)
    assert option.changes == {}
    gone = database.state("postgres_privileges.absent", role, **words)
    assert gone.changes == {role: "Absent"}
    again = database.state("postgres_privileges.absent", role, **words)
    assert (again.result, again.changes) == (True, {})
    assert role not in database.call(
        "privileges_list", name, kind, prepend=schema, maintenance_db=base
    )


def test_membership_is_granted_and_revoked_once(database: Database, fresh: Fresh) -> None:
    role, group = fresh("role"), fresh("group")
    database.state("postgres_user.present", role)
    database.state("postgres_group.present", group)
    words: dict[str, Any] = {"object_name": group, "object_type": "group"}
    for change in (True, False):
        found = database.state("postgres_privileges.present", role, **words)
        assert (found.result, bool(found.changes)) == (True, change)
    assert database.call("privileges_list", group, "group") == {role: False}
    database.state("postgres_privileges.present", role, grant_option=True, **words)
    assert database.call("privileges_list", group, "group") == {role: True}
    for change in (True, False):
        found = database.state("postgres_privileges.absent", role, **words)
        assert (found.result, bool(found.changes)) == (True, change)


def test_database_privilege_of_its_owner_is_set(database: Database, fresh: Fresh) -> None:
    base, owner = fresh("base"), fresh("owner")
    database.state("postgres_user.present", owner)
    database.state("postgres_database.present", base, owner=owner)
    words: dict[str, Any] = {
        "object_name": base,
        "object_type": "database",
        "privileges": ["CREATE", "TEMP"],
    }
    assert database.state("postgres_privileges.present", owner, **words).changes == {}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"object_type": "tabel", "privileges": ["ALL"]}, "did you mean 'table'"),
        ({"object_type": "table", "privileges": ["EXECUTE"]}, "Invalid privilege(s): EXECUTE"),
        ({"object_type": "table"}, "Invalid privilege(s): none"),
        ({"object_type": "table", "privileges": ["SELECT ON t; --"]}, "Invalid privilege(s)"),
        ({"object_type": "group", "privileges": ["ALL"]}, "should not be set for object_type"),
        ({"object_type": "table", "privileges": ["ALL"]}, "there is no table none"),
    ],
)
def test_bad_privilege_is_refused(database: Database, words: dict[str, Any], told: str) -> None:
    found = database.state("postgres_privileges.present", "test2", object_name="none", **words)
    assert found.result is False
    assert told in found.comment


def test_unknown_role_is_named(database: Database) -> None:
    words: dict[str, Any] = {
        "object_name": "public",
        "object_type": "schema",
        "privileges": ["USAGE"],
    }
    found = database.state("postgres_privileges.present", "nobody here", **words)
    assert found.result is False
    assert 'role "nobody here" does not exist' in found.comment


def test_folder_of_data_is_created_once(database: Database, fresh: Fresh) -> None:
    folder = f"{server().folder}/{fresh('data')}"
    words: dict[str, Any] = {"runas": RUNAS, "password": "Tr0ub4dor", "checksums": True}
    context = database.context

    def state(test: bool) -> Any:
        plugin = context.states["postgres_initdb.present"]
        return plugin.call(context.with_(test=test), folder, user="boss", **words)

    assert state(True).comment == f"Postgres data directory {folder} is set to be initialized"
    found = state(False)
    assert (found.result, found.changes) == (True, {folder: "Present"}), found
    again = state(False)
    assert (again.result, again.changes) == (True, {})
    with pytest.raises(UsageError, match="no absolute path"):
        context.call("postgres.datadir_init", "data")
    with pytest.raises(CommandExecutionError, match=r"initdb failed: .*frobnicate"):
        context.call("postgres.datadir_init", f"{folder}2", auth="frobnicate", runas=RUNAS)
