from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from catena.master.store import migrate, schema, upkeep

#: Prepares a database and says whether Alembic is in this process.
PREPARE = """
import asyncio, sys
from catena.master.store import migrate
asyncio.run(migrate.prepare(sys.argv[1]))
print("alembic" in sys.modules)
"""


@pytest.mark.parametrize("revision", ["", "0014"], ids=["new", "older"])
def test_master_brings_its_database_to_the_schema_without_alembic_in_its_process(
    tmp_path: Path, revision: str
) -> None:
    url = f"sqlite:///{tmp_path / 'master.db'}"
    if revision:
        engine = sa.create_engine(url)
        schema.migrate(engine, revision)
        engine.dispose()
    argv = [sys.executable, "-c", PREPARE, url]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"
    with upkeep.opened(url) as engine:
        assert schema.current(engine) == schema.HEAD


async def test_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    broken = tmp_path / "master.db"
    broken.write_bytes(b"this is no database" * 100)
    await migrate.prepare(f"sqlite:///{broken}")
    assert broken.read_bytes() == b"this is no database" * 100


def test_events_go_on_counting_after_their_table_was_rebuilt(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'master.db'}")
    schema.migrate(engine, "0015")
    event = "INSERT INTO event (tag, data, at, source, event_id) VALUES ('t', x'80', 1.0, ?, ?)"
    with engine.begin() as conn:
        for number in range(5):
            conn.exec_driver_sql(event, ("web1", str(number)))
        conn.exec_driver_sql("DELETE FROM event WHERE seq > 2")
        conn.exec_driver_sql(
            "INSERT INTO client_request (user, key, verb, digest, at)"
            " VALUES ('root', 'k', 'v', 'd', 1.0)"
        )
    schema.migrate(engine, "0016")
    with engine.begin() as conn:
        conn.exec_driver_sql(event, ("", None))
        conn.exec_driver_sql(event, ("", None))
        with pytest.raises(sa.exc.IntegrityError):
            conn.exec_driver_sql(event, ("web1", "1"))
        assert conn.exec_driver_sql("SELECT seq FROM event").scalars().all() == [1, 2, 6, 7]
        assert conn.exec_driver_sql("SELECT key FROM client_request").scalars().all() == ["k"]
    engine.dispose()
