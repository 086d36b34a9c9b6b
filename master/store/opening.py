"""A master's checks of its store before it opens it."""

from __future__ import annotations

import logging
from pathlib import Path

import sqlalchemy as sa

from catena.core.config.master import MasterSettings
from catena.core.errors import CatenaError
from catena.master.store import birth, schema, soundness, upkeep
from catena.master.store.database import database_url, is_file

LOG = logging.getLogger(__name__)


def check(settings: MasterSettings, new_store: bool) -> birth.Note:
    """Refuse a store that is damaged, or empty although the master's keys have served one.

    Returns:
        Content of the file about the store in the folder of the keys.

    Raises:
        StoreCorruptError: the store is damaged.
        StoreMismatchError: the store is empty although the keys have served one.
    """
    url, pki_dir = database_url(settings), Path(settings.pki_dir)
    note = birth.read(pki_dir)
    if note.damage:
        LOG.warning("%s; it is rewritten with the id of the store", note.damage)
    if soundness.is_fresh(url):
        if not new_store:
            refuse_lost(settings)
    elif is_file(url):
        soundness.refuse_damaged(upkeep.sqlite_file(url))
    return note


def refuse_lost(settings: MasterSettings) -> None:
    """Refuse an empty store if the master's keys have served one.

    Raises:
        StoreMismatchError: the store is lost.
    """
    place = sa.make_url(database_url(settings)).render_as_string()
    birth.refuse_empty(place, Path(settings.pki_dir), Path(settings.state_dir))


def claim(settings: MasterSettings, note: birth.Note, new_store: bool) -> None:
    """Bind the store and the master's keys to each other.

    Raises:
        StoreMismatchError: the store belongs to other keys.
        CatenaError: the id of the store could not be written.
    """
    url, pki_dir = database_url(settings), Path(settings.pki_dir)
    if soundness.is_fresh(url):
        # The schema could not be created; `Store.open` reports why.
        return
    with upkeep.opened(url) as engine:
        if schema.current(engine) != schema.HEAD:
            return
        with engine.begin() as conn:
            found = birth.claim(conn, note, new_store=new_store)
    if found == note.store:
        return
    try:
        birth.write(pki_dir, found)
    except OSError as error:
        raise CatenaError(f"can't write the id of the store to {pki_dir}: {error}") from None
