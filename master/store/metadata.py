"""The one MetaData on which every table of the master hangs, and the column types they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgpack
import sqlalchemy as sa

from catena.core.records import plain

#: Constraints get names that both SQLite (batch ALTER) and PostgreSQL can drop again.
METADATA = sa.MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: A growing integer key; SQLite makes only INTEGER a row id.
Serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


class Words(sa.types.TypeDecorator[str]):
    """Text for people, whoever wrote it: PostgreSQL would refuse the whole row for a NUL."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """Return *value* with a visible sign in the place of each NUL."""
        return value.replace("\0", "\ufffd") if value else value


@dataclass(frozen=True, slots=True)
class Ready:
    """A value of a Packed column that is packed already."""

    packed: bytes

    @classmethod
    def of(cls, value: Any) -> Ready:
        """Return plain data, or a record, packed."""
        return cls(msgpack.packb(value, default=plain, use_bin_type=True))


#: Stands where a value would: a row of another table has it. (Nothing packs to no bytes.)
WITH_ANOTHER = Ready(b"")


class Packed(sa.types.TypeDecorator[Any]):
    """Plain data (dicts, lists, str, bytes, numbers) as MessagePack.

    Values that minions return may hold bytes and non-string keys, which JSON columns would change.
    What was packed for another reason is given as Ready.
    """

    impl = sa.LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> bytes | None:
        """Return *value* as it is stored; None stays NULL."""
        if value is None:
            return None
        return (value if type(value) is Ready else Ready.of(value)).packed

    def process_result_value(self, value: bytes | None, dialect: sa.Dialect) -> Any:
        """Return the stored value; NULL is None, and so is what is WITH_ANOTHER."""
        if not value:
            return None
        return msgpack.unpackb(value, raw=False, strict_map_key=False)
