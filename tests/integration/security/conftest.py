"""A real master process, and hostile minions for it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import Fleet

from tests.integration.security.hostile import Hostile, Site

#: Stands in a victim's pillar; must never be seen by anybody else.
CANARY = "canary-4f1c9b"
MARK = "{{ opts['root_dir'] }}"

STATES = {"site.sls": "nothing:\n  test.nop: []\n"}
PILLAR = {
    "top.sls": "base:\n  'victim*':\n  - secret\n  'typo*':\n  - broken\n",
    "secret.sls": f"password: {CANARY}\n",
    "broken.sls": f"password: {CANARY}\nbad: [\n",
}
#: What people write: data of an event inside quotes.
REACTION = """
seen:
  local.test.arg:
  - tgt: victim
  - tgt_type: list
  - args:
    - who: {{ data['id'] | json }}
    - said: {{ data.get('said', '') | json }}
"""


def write_tree(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    folder = Path(tempfile.mkdtemp(prefix="cat-"))
    write_tree(folder / "states", STATES)
    write_tree(folder / "pillar", PILLAR)
    write_tree(folder / "reactor", {"seen.sls": REACTION})
    (folder / "outside").write_text(CANARY)
    (folder / "states/link").symlink_to(folder / "outside")
    settings = {
        "file_roots": {"base": [str(folder / "states")]},
        "pillar_roots": {"base": [str(folder / "pillar")]},
        "reactor": [{"app/*": [str(folder / "reactor/seen.sls")]}],
        "events_per_second": 20,
        "return_limit_mib": 4,
        "peer": {"peer[0-9]": ["test\\.(ping|arg)"]},
        "peer_run": {"peer1": ["manage\\.up"]},
        "file_recv": True,
        "file_recv_max_size": 1,
    }
    fleet = Fleet(folder, {}, settings)
    site = Site(fleet)
    try:
        with fleet:
            fleet.start_master()
            yield site
            site.close()
    except BaseException:
        print(f"--- master.log\n{site.log[-6000:]}")
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def evil(site: Site) -> Hostile:
    """An accepted minion that is not honest."""
    return site.minion("evil")


@pytest.fixture(scope="module")
def victim(site: Site) -> Hostile:
    """An honest minion, moved by the test."""
    return site.minion("victim")
