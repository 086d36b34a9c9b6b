"""Files, pillar and grains from a master to its minions."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fleet import Fleet

from tests.acceptance.conftest import make_fleet, running, write_tree

SMALL_FILES = 2000
#: Far above what it takes (2 s alone on two cores), far below one question after the other.
PATIENCE_SECONDS = 50.0

TREE = {
    "tree/a.txt": "a\n",
    "tree/sub/b.txt": "b\n",
    "greet.jinja": "hello {{ grains['id'] }} {{ word }}\n",
    "noted.sls": "{{ opts['root_dir'] }}/noted:\n  file.managed:\n  - source: salt://noted.txt\n",
    "noted.txt": "0\n",
    "_grains/rack.py": "def rack():\n    return {'rack': 'r' + __grains__['id'][-1]}\n",
}
PILLAR = {
    "top.sls": "base:\n  '*':\n  - common\n  'web*':\n  - web\n  'broken*':\n  - broken\n"
    "  'endless*':\n  - endless\n",
    "common.sls": "include:\n- shared:\n    key: shared\nsite: {a: 1, list: [1]}\n",
    "shared.sls": "from: an include\n",
    "web.sls": "site: {b: 2, list: [2]}\nname: {{ grains['id'] }}\n",
    "broken.sls": "fine: 1\nbad: {{ nowhere }}\n",
    "endless.sls": "{% for n in range(99999) %}{% for m in range(99999) %}"
    "{% endfor %}{% endfor %}\n",
}


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    names = {"web1": {"role": "web"}, "db2": {}, "broken3": {}, "endless4": {}}
    made = make_fleet(names, pillar_timeout_seconds=10)
    write_tree(made.folder / "states", TREE)
    write_tree(made.folder / "pillar", PILLAR)
    write_tree(made.folder / "dev", {"only.txt": "dev\n"})
    config = json.dumps({
        "file_roots": {"base": [str(made.folder / "states")], "dev": [str(made.folder / "dev")]}
    })  # fmt: skip
    write_tree(made.config, {"master.d/roots.conf": config})
    write_tree(
        made.home("web1"), {"etc/catena/grains": "static: from a file\nrole: of the file\n"}
    )
    yield from running(made)


def value(fleet: Fleet, minion: str, *words: str) -> Any:
    """Return what a function returns on one minion."""
    done = fleet.catena("run", minion, *words, "--out", "json", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)[minion]


def test_edited_file_is_used_by_the_next_job(fleet: Fleet) -> None:
    for number in range(4):
        (fleet.folder / "states/noted.txt").write_text(f"{number}\n")
        fleet.catena("run", "web1", "state.apply", "noted", "--out", "quiet")
        assert (fleet.home("web1") / "noted").read_text() == f"{number}\n"


def test_cp_fetches_and_lists_files_of_each_environment(fleet: Fleet) -> None:
    out = fleet.folder / "out"
    out.mkdir()
    assert value(fleet, "web1", "cp.get_file", "salt://tree/a.txt", f"{out}/a") == f"{out}/a"
    assert (out / "a").read_text() == "a\n"
    assert value(fleet, "web1", "cp.get_file", "salt://no.txt", f"{out}/no") == ""
    found = value(fleet, "web1", "cp.get_dir", "salt://tree", str(out))
    assert sorted(found) == [f"{out}/tree/a.txt", f"{out}/tree/sub/b.txt"]
    assert value(fleet, "web1", "cp.get_file_str", "salt://tree/sub/b.txt") == "b\n"
    value(fleet, "web1", "cp.get_template", "salt://greet.jinja", f"{out}/g", "word=there")
    assert (out / "g").read_text().split() == ["hello", "web1", "there"]
    cached = value(fleet, "web1", "cp.cache_file", "salt://tree/a.txt")
    assert Path(cached).read_text() == "a\n"
    assert value(fleet, "web1", "cp.is_cached", "salt://tree/a.txt") == cached
    assert {"tree/a.txt", "greet.jinja"} <= set(value(fleet, "web1", "cp.list_master"))
    assert "tree/sub" in value(fleet, "web1", "cp.list_master_dirs")
    assert {"noted", "top"} <= set(value(fleet, "web1", "cp.list_states"))
    assert "only.txt" not in value(fleet, "web1", "cp.list_master")
    assert "only.txt" in value(fleet, "web1", "cp.list_master", "saltenv=dev")
    assert value(fleet, "web1", "cp.get_file_str", "salt://only.txt", "saltenv=dev") == "dev\n"
    assert value(fleet, "web1", "cp.get_file_str", "salt://only.txt?saltenv=dev") == "dev\n"
    assert value(fleet, "web1", "cp.envs") == ["base", "dev"]


def test_many_small_files_and_a_large_one_are_fetched_quickly(fleet: Fleet) -> None:
    for number in range(SMALL_FILES):
        path = fleet.folder / f"states/many/{number % 20}/{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n")
    data = os.urandom(100 * 1024 * 1024)
    (fleet.folder / "states/large").write_bytes(data)
    began = time.monotonic()
    assert len(value(fleet, "web1", "cp.cache_dir", "salt://many")) == SMALL_FILES
    assert time.monotonic() - began < PATIENCE_SECONDS
    began = time.monotonic()
    found = value(fleet, "web1", "cp.cache_file", "salt://large")
    assert time.monotonic() - began < PATIENCE_SECONDS
    digest = hashlib.sha256(Path(found).read_bytes()).digest()
    assert digest == hashlib.sha256(data).digest()


def test_pillar_is_targeted_included_and_merged(fleet: Fleet) -> None:
    web, db = (value(fleet, name, "pillar.items", "unmask=True") for name in ("web1", "db2"))
    assert web["site"] == {"a": 1, "b": 2, "list": [2]}
    assert web["name"] == "web1"
    assert web["shared"] == {"from": "an include"}
    assert db["site"] == {"a": 1, "list": [1]}
    assert "name" not in db


@pytest.mark.parametrize(
    ("minion", "texts"),
    [("broken3", ["broken.sls", ":2", "nowhere"]), ("endless4", ["endless", "10 s"])],
)
def test_broken_pillar_stops_a_chain_before_its_first_action(
    fleet: Fleet, minion: str, texts: list[str]
) -> None:
    witness = fleet.folder / f"witness-{minion}"
    fleet.catena("chain", "create", minion)
    for target in (minion, "db2"):
        fleet.catena("chain", "add", minion, "-t", target, "--cmd", f"echo {target} >> {witness}")
    done = fleet.catena("chain", "schedule", minion, "--watch", check=False)
    assert done.returncode == 1
    for text in texts:
        assert text in done.stdout, done.stdout
    assert witness.read_text() == "db2\n"


def test_grains_come_from_files_configuration_and_custom_modules(fleet: Fleet) -> None:
    # The configuration wins over the file, as in Salt.
    found = value(fleet, "web1", "grains.items")
    assert (found["static"], found["role"], found["id"]) == ("from a file", "web", "web1")
    expected = "os os_family osrelease osfinger kernel cpuarch mem_total ip4_interfaces ipv4 fqdn"
    for name in (*expected.split(), "host", "machine_id", "virtual", "init"):
        assert name in found, name
    assert found["machine_id"] == fleet.machine_id("web1")
    assert value(fleet, "web1", "saltutil.sync_grains") == ["grains.rack"]
    assert value(fleet, "web1", "grains.get", "rack") == "r1"
    answered = json.loads(
        fleet.catena("run", "-G", "rack:r1", "test.ping", "--out", "json").stdout
    )
    assert answered == {"web1": True}
