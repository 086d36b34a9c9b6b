"""Where engines are named, and what all engines of a master are together."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import sqlalchemy as sa

from catena.core.job import JobSpec
from catena.master import engines
from catena.master.engines import ENGINES
from catena.master.executions.engine import Engine, Engines
from catena.master.store.metadata import METADATA

MASTER = Path(engines.__file__).parent
#: Visits hosts for chains; it is a link and no engine, and may know them.
LINK = MASTER / "push"


def imported(path: Path) -> set[str]:
    """Return the modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}." for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {f"{alias.name}." for alias in node.names}
    return found


def test_only_the_engine_list_imports_engines() -> None:
    packages = tuple(kind.__module__.rpartition(".")[0] + "." for kind in ENGINES)
    own = [MASTER / package.split(".")[2] for package in packages]
    found = {
        str(path.relative_to(MASTER))
        for path in MASTER.rglob("*.py")
        if not any(path.is_relative_to(folder) for folder in (*own, LINK))
        if any(name.startswith(packages) for name in imported(path))
    }
    assert found == {"engines.py"}


def test_each_table_belongs_to_one_engine_at_most() -> None:
    owned = Counter(table.name for kind in ENGINES for table in kind.tables)
    assert not [name for name, owners in owned.items() if owners > 1]
    assert owned.keys() <= METADATA.tables.keys()


class Toy(Engine[str]):
    """Has for each minion what its parts say."""

    name = "toy"
    roots = (Path("/srv/toy"),)

    def __init__(self, parts: str) -> None:
        self.word = parts
        self.woken = 0

    @classmethod
    def make(cls, parts: str) -> Toy:
        return cls(parts)

    def wake(self) -> None:
        self.woken += 1

    def overlay(self, minion: str) -> Mapping[str, Path]:
        return {f"{self.name}.sls": Path(f"/{self.word}/{minion}")}

    def under_way(self, conn: sa.Connection) -> Mapping[str, Sequence[str]]:
        return {"web1": [self.name], self.name: ["own"]}

    def paused(
        self, conn: sa.Connection, spec: JobSpec, minions: Collection[str]
    ) -> Mapping[str, str]:
        return dict.fromkeys(list(minions)[:1], self.name)


class Other(Toy):
    """Another engine."""

    name = "other"
    roots = (Path("/srv/other"),)


class Idle(Engine[str]):
    """Has nothing but a name."""

    name = "idle"

    @classmethod
    def make(cls, parts: str) -> Idle:
        return cls()


def test_engines_of_a_master_answer_together() -> None:
    all_of_them = Engines[str]((Toy, Other, Idle))
    assert list(all_of_them.overlay("web1")) == []
    all_of_them.make("parts")
    assert [engine.name for engine in all_of_them] == ["toy", "other", "idle"]
    assert all_of_them.roots == ("/srv/toy", "/srv/other")
    assert all_of_them.overlay("web1") == {
        "toy.sls": Path("/parts/web1"),
        "other.sls": Path("/parts/web1"),
    }
    conn = sa.create_engine("sqlite://").connect()
    assert all_of_them.under_way(conn) == {
        "web1": ["toy", "other"],
        "toy": ["own"],
        "other": ["own"],
    }
    all_of_them.wake()
    woken = all_of_them["toy"]
    assert isinstance(woken, Toy)
    assert woken.woken == 1


def test_job_is_paused_where_one_engine_says_so() -> None:
    all_of_them = Engines[str]((Idle, Toy))
    all_of_them.make("parts")
    spec = JobSpec("1", "test.ping")
    conn = sa.create_engine("sqlite://").connect()
    assert all_of_them.paused(conn, spec, ["web1", "web2"]) == {"web1": "toy"}
