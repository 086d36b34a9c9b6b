"""All functions of postgres.*, for the index of execution modules."""

from __future__ import annotations

from catena.modules.postgres.clusters import (
    cluster_create,
    cluster_exists,
    cluster_list,
    cluster_remove,
    datadir_exists,
    datadir_init,
)
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
from catena.modules.postgres.extensions import (
    available_extensions,
    create_extension,
    create_metadata,
    drop_extension,
    get_available_extension,
    get_installed_extension,
    installed_extensions,
    is_available_extension,
    is_installed_extension,
)
from catena.modules.postgres.privileges import (
    has_any_privilege,
    has_privileges,
    privileges_grant,
    privileges_list,
    privileges_revoke,
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
from catena.modules.postgres.schemas import (
    language_create,
    language_exists,
    language_list,
    language_remove,
    schema_create,
    schema_exists,
    schema_get,
    schema_list,
    schema_remove,
    tablespace_alter,
    tablespace_create,
    tablespace_exists,
    tablespace_list,
    tablespace_remove,
)

__all__ = [
    "available_extensions", "cluster_create", "cluster_exists", "cluster_list",
    "cluster_remove", "create_extension", "create_metadata", "datadir_exists", "datadir_init",
    "db_alter", "db_create", "db_exists", "db_list", "db_remove", "drop_extension",
    "get_available_extension", "get_installed_extension", "group_create", "group_remove",
    "group_update", "has_any_privilege", "has_privileges", "installed_extensions",
    "is_available_extension", "is_installed_extension", "language_create", "language_exists",
    "language_list", "language_remove", "moment", "owner_to", "privileges_grant",
    "privileges_list", "privileges_revoke", "psql_query", "role_get", "schema_create",
    "schema_exists", "schema_get", "schema_list", "schema_remove", "tablespace_alter",
    "tablespace_create", "tablespace_exists", "tablespace_list", "tablespace_remove",
    "user_create", "user_exists", "user_list", "user_remove", "user_update", "version",
]  # fmt: skip
