"""The MetaData of all tables of the master, and their shared column types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgpack
import sqlalchemy as sa

from catena.core.errors import CatenaError
from catena.core.records import plain

#: Constraints have names, so that both SQLite (batch ALTER) and PostgreSQL can drop them.
METADATA = sa.MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: An auto-incremented integer key; in SQLite only INTEGER is a row id.
Serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


class Words(sa.types.TypeDecorator[str]):
    """Text for people. NUL characters, which PostgreSQL refuses, are replaced."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """Return *value* with a visible character in place of each NUL."""
        return value.replace("\0", "\ufffd") if value else value


#: How an operator gets a sound database again.
RESTORE = "stop the master, then: catena store restore BACKUP"


class StoreCorruptError(CatenaError):
    """The database file is damaged; restore it from a backup."""

    @classmethod
    def because(cls, why: str) -> StoreCorruptError:
        """Return the error with the remedy."""
        return cls(f"the database is damaged ({why}); {RESTORE}")

    @property
    def damage(self) -> str:
        """Return the message without the remedy."""
        return str(self).removesuffix(f"; {RESTORE}")


@dataclass(frozen=True, slots=True)
class Ready:
    """A value of a MessagePackType column that is already packed."""

    packed: bytes

    @classmethod
    def of(cls, value: Any) -> Ready:
        """Return plain data, or a record, packed."""
        return cls(msgpack.packb(value, default=plain, use_bin_type=True))


#: Marks a value that is stored in a row of another table. (No value packs to zero bytes.)
WITH_ANOTHER = Ready(b"")


class MessagePackType(sa.types.TypeDecorator[Any]):
    """Plain data (dicts, lists, str, bytes, numbers) as MessagePack.

    Values from minions may contain bytes and non-string keys, which JSON columns would change.
    Data that is already packed is passed as Ready.
    """

    impl = sa.LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> bytes | None:
        """Return *value* in its stored form; None stays NULL."""
        if value is None:
            return None
        return (value if type(value) is Ready else Ready.of(value)).packed

    def process_result_value(self, value: bytes | None, dialect: sa.Dialect) -> Any:
        """Return the stored value; None for NULL and for WITH_ANOTHER.

        Raises:
            StoreCorruptError: the stored bytes are damaged; SQLite's own checks don't find that.
        """
        if not value:
            return None
        try:
            return msgpack.unpackb(value, raw=False, strict_map_key=False)
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise StoreCorruptError.because(f"a value is no MessagePack: {error}") from None
