"""All functions of postgres.*, for the index of execution modules."""

from __future__ import annotations

from catena.modules.postgres.databases import (
    db_alter,
    db_create,
    db_exists,
    db_list,
    db_remove,
    owner_to,
    psql_query,
    version,
)
from catena.modules.postgres.roles import (
    group_create,
    group_remove,
    group_update,
    moment,
    role_get,
    user_create,
    user_exists,
    user_list,
    user_remove,
    user_update,
)

__all__ = [
    "db_alter", "db_create", "db_exists", "db_list", "db_remove", "group_create", "group_remove",
    "group_update", "moment", "owner_to", "psql_query", "role_get", "user_create", "user_exists",
    "user_list", "user_remove", "user_update", "version",
]  # fmt: skip
