from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from catena.master.store import migrate, schema, upkeep

#: Brings a new database up to date and says whether Alembic is in this process.
BRING = """
import sys
from catena.master.store import migrate
assert migrate.apart(sys.argv[1])
print("alembic" in sys.modules)
"""


def test_a_master_that_makes_its_database_is_no_larger_for_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'db' / 'master.db'}"
    argv = [sys.executable, "-c", BRING, url]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"
    with upkeep.opened(url) as engine:
        assert schema.current(engine) == schema.HEAD
    assert not migrate.apart(url)


def test_what_is_no_database_is_left_to_who_opens_it(tmp_path: Path) -> None:
    broken = tmp_path / "master.db"
    broken.write_bytes(b"this is no database" * 100)
    assert not migrate.apart(f"sqlite:///{broken}")
