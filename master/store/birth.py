"""Distinguishes a store from a new one that has replaced it.

The store has an id, and a file in the folder of the master's keys contains the id of the store
that these keys have served. An empty store whose keys have served one is a lost database, not a
first start.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from catena.core.digest import sha256
from catena.core.errors import CatenaError
from catena.core.files import key_folder, read_limited, write_durable
from catena.master.store.tables import FACTS

#: Name of the file in `pki_dir`, and of the fact in the store.
FILE, FACT = "store.json", "store_id"
#: Age in seconds from which a key shows that its master was started before.
KEY_SECONDS = 3600.0
#: Folders in `state_dir` that a master creates after its store.
_LATER = ("blobs", "chains")
_LIMIT = 4096
_REMEDY = (
    "restore a backup (catena store restore BACKUP), or start without the old jobs, events, "
    "chains and accepted keys: catena master --new-store"
)


class StoreMismatchError(CatenaError):
    """The store is not the one that the master's keys have served."""


@dataclass(frozen=True, slots=True)
class Note:
    """Content of the file about the store in the folder of the keys."""

    #: Id of the store; "": none, as with an older version.
    store: str = ""
    #: Why the file cannot be read; "" if it can.
    damage: str = ""


def read(pki_dir: Path) -> Note:
    """Return the content of the file about the store in the folder of the keys."""
    path = pki_dir / FILE
    try:
        found = json.loads(read_limited(path, _LIMIT))
        store, check = str(found["store"]), str(found["check"])
    except FileNotFoundError:
        return Note()
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Note(damage=f"{path} is damaged ({error})")
    if check != _check(store):
        return Note(damage=f"{path} is damaged (its checksum is wrong)")
    return Note(store)


def _check(store: str) -> str:
    return sha256(store.encode()).hexdigest()


def refuse_empty(place: str, pki_dir: Path, state_dir: Path, now: float | None = None) -> None:
    """Refuse an empty store whose keys have served one.

    A master creates its key, and its folders beside the store, only after the store. A key alone
    shows nothing while it is young, because a site may distribute keys before the first start.

    Args:
        place: location of the store, for the message.
        pki_dir: folder of the master's keys.
        state_dir: folder of the master's data.
        now: wall clock, seconds since the epoch.

    Raises:
        StoreMismatchError: the store is empty, but its keys have served one.
    """
    note = read(pki_dir)
    key = pki_dir / "curve.key"
    age = (time.time() if now is None else now) - key.stat().st_mtime if key.exists() else 0.0
    left = any((state_dir / name).exists() for name in _LATER)
    if note.store or note.damage or age > KEY_SECONDS or (left and key.exists()):
        raise StoreMismatchError(
            f"the store {place} is empty, but the keys in {pki_dir} are of a master that has "
            f"served: {_REMEDY}"
        )


def claim(conn: sa.Connection, note: Note, *, new_store: bool = False) -> str:
    """Return the id of the store; assign one in the running transaction if it has none.

    Raises:
        StoreMismatchError: the store belongs to other keys, and *new_store* is false.
    """
    query = sa.select(FACTS.c.value).where(FACTS.c.name == FACT)
    found = conn.execute(query).scalar()
    if found is None:
        found = note.store if note.store and not new_store else uuid.uuid4().hex
        conn.execute(sa.insert(FACTS).values(name=FACT, value=found))
    if note.store and found != note.store and not new_store:
        raise StoreMismatchError(
            f"the store ({found}) is not the one that this master's keys serve ({note.store}): "
            "check `database` and `state_dir`; to use it anyway: catena master --new-store"
        )
    return str(found)


def write(pki_dir: Path, store: str) -> None:
    """Write the id of the store into the folder of the keys.

    Raises:
        OSError: it could not be written.
    """
    text = json.dumps({"store": store, "check": _check(store)})
    write_durable(key_folder(pki_dir) / FILE, text.encode())
