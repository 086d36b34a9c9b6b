"""All functions of mysql.*, for the index of execution modules."""

from __future__ import annotations

from catena.modules.mysql.databases import (
    alter_db,
    db_create,
    db_exists,
    db_get,
    db_list,
    db_remove,
    db_tables,
    processlist,
    query,
    showglobal,
    showvariables,
    status,
    version,
)
from catena.modules.mysql.grants import (
    grant_add,
    grant_exists,
    grant_revoke,
    user_grants,
)
from catena.modules.mysql.users import (
    user_chpass,
    user_create,
    user_exists,
    user_info,
    user_list,
    user_remove,
)

__all__ = [
    "alter_db", "db_create", "db_exists", "db_get", "db_list", "db_remove", "db_tables",
    "grant_add", "grant_exists", "grant_revoke", "processlist", "query", "showglobal",
    "showvariables", "status", "user_chpass", "user_create", "user_exists", "user_grants",
    "user_info", "user_list", "user_remove", "version",
]  # fmt: skip
