"""postgres_database and the functions of databases against a real server."""

from __future__ import annotations

from typing import Any

import pytest

from catena.core.errors import CommandExecutionError
from catena.modules.postgres import psql
from tests.integration.states.postgres.conftest import RUNAS, Database, Fresh
from tests.integration.states.postgres.test_roles import HOSTILE


def test_database_is_created_once(database: Database, fresh: Fresh) -> None:
    name, owner = fresh("base"), fresh("owner")
    database.state("postgres_user.present", owner)
    wanted: dict[str, Any] = {
        "owner": owner,
        "encoding": "UTF8",
        "template": "template0",
        "lc_collate": "C",
    }
    found = database.state("postgres_database.present", name, test=True, **wanted)
    assert (found.result, found.comment) == (None, f"Database {name} is set to be created")
    found = database.state("postgres_database.present", name, **wanted)
    assert (found.result, found.changes) == (True, {name: "Present"})
    assert found.comment == f"The database {name} has been created"
    wanted["encoding"] = "utf-8"
    again = database.state("postgres_database.present", name, **wanted)
    assert (again.result, again.changes) == (True, {})
    assert again.comment == f"Database {name} is already present"
    shown = database.call("db_list")[name]
    assert (shown["Owner"], shown["Collate"], shown["Tablespace"]) == (owner, "C", "pg_default")


def test_owner_of_everything_is_changed_once(database: Database, fresh: Fresh) -> None:
    name, owner = fresh("base"), fresh("owner")
    database.state("postgres_user.present", owner)
    database.state("postgres_database.present", name)
    server = psql.connection(database.context, {"runas": RUNAS, "maintenance_db": name})[0]
    psql.act(
        database.context,
        server,
        [
            'CREATE SCHEMA "Od;d"',
            'CREATE TABLE "Od;d"."T" (a serial, b bigint GENERATED ALWAYS AS IDENTITY)',
            'CREATE VIEW v AS SELECT * FROM "Od;d"."T"',
            "CREATE SEQUENCE s",
            "CREATE FUNCTION f(a int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
        ],
    )
    found = database.state("postgres_database.present", name, test=True, owner=owner)
    assert found.comment == f"Database {name} exists, but parameters need to be changed"
    found = database.state("postgres_database.present", name, owner=owner, owner_recurse=True)
    assert found.changes == {name: "Parameters changed"}
    assert found.comment == f"Parameters for database {name} have been changed"
    others = database.value(
        "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
        f" JOIN pg_roles r ON r.oid = relowner WHERE nspname IN ('public', 'Od;d')"
        f" AND relkind IN ('r', 'v', 'S') AND rolname <> '{owner}'",
        maintenance_db=name,
    )
    assert others == "0"
    query = "SELECT proowner::regrole FROM pg_proc WHERE proname = 'f'"
    assert database.value(query, maintenance_db=name) == owner
    again = database.state("postgres_database.present", name, owner=owner, owner_recurse=True)
    assert (again.result, again.changes) == (True, {})


def test_fixed_attribute_that_differs_fails(database: Database, fresh: Fresh) -> None:
    name = fresh("base")
    database.state("postgres_database.present", name)
    found = database.state("postgres_database.present", name, lc_ctype="de_DE.UTF-8")
    assert found.result is False
    assert found.comment == (
        f"Database {name} has wrong parameters which couldn't be changed on fly."
    )


def test_database_with_sessions_is_removed_once(database: Database, fresh: Fresh) -> None:
    import sqlalchemy as sa

    from tests.support.postgres_server import server

    name = fresh("base")
    database.state("postgres_database.present", name)
    engine = sa.create_engine(server().url(name))
    with engine.connect() as session:
        session.exec_driver_sql("SELECT 1")
        found = database.state("postgres_database.absent", name, test=True)
        assert (found.result, found.comment) == (None, f"Database {name} is set to be removed")
        found = database.state("postgres_database.absent", name)
        assert (found.result, found.changes) == (True, {name: "Absent"})
        session.invalidate()
    engine.dispose()
    again = database.state("postgres_database.absent", name)
    assert (again.result, again.changes) == (True, {})
    assert again.comment == f"Database {name} is not present, so it cannot be removed"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_name_stays_a_name(database: Database, name: str) -> None:
    database.state("postgres_user.present", name)
    for change in (True, False):
        found = database.state("postgres_database.present", name, owner=name)
        assert (found.result, bool(found.changes)) == (True, change), found
    assert database.call("owner_to", name, name) is True
    assert database.value("SELECT current_database()", maintenance_db=name) == name
    assert database.state("postgres_database.absent", name).changes == {name: "Absent"}
    assert database.state("postgres_user.absent", name).changes == {name: "Absent"}


def test_query_of_a_person_is_not_read_by_psql(database: Database) -> None:
    text = "SELECT 'a\\b :x \"q\"' AS \"one, two\", NULL AS n, E'1\\n2' AS m -- the end"
    assert database.call("psql_query", text) == [{"one, two": 'a\\b :x "q"', "n": "", "m": "1\n2"}]
    with pytest.raises(CommandExecutionError, match="syntax error"):
        database.call("psql_query", "SELECT 1 \\! touch /nonexistent/x")
    assert database.call("psql_query", "SELECT 1 AS a WHERE false;") == []


def test_query_may_write_where_it_says_so(database: Database, fresh: Fresh) -> None:
    name = fresh("role")
    database.state("postgres_user.present", name)
    query = (
        f"WITH u AS (UPDATE pg_authid SET rolconnlimit = 7 WHERE rolname = '{name}'"
        " RETURNING rolconnlimit) SELECT * FROM u"
    )
    assert database.call("psql_query", query, write=True) == [{"rolconnlimit": "7"}]
    assert database.call("role_get", name)["connections"] == 7


def test_answer_that_is_too_long_is_an_error(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psql, "_OUTPUT_LIMIT", 1000)
    with pytest.raises(CommandExecutionError, match="longer than 1000 bytes"):
        database.call("psql_query", "SELECT repeat('x', 5000) AS x")


def test_missing_database_is_named(database: Database) -> None:
    with pytest.raises(psql.NoDatabaseError, match='database "none, \'such" does not exist'):
        database.call("version", maintenance_db="none, 'such")


def test_version_is_that_of_the_server(database: Database) -> None:
    assert int(database.call("version").split(".")[0]) >= 9
