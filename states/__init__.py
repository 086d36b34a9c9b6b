"""State modules: bring one resource of the host into its wanted state and report the changes."""

from __future__ import annotations

from typing import Dict

#: State modules by the part of the name before the dot; imported on first use.
INDEX: Dict[str, str] = {
    "alias": "catena.states.alias",
    "alternatives": "catena.states.alternatives",
    "apache_conf": "catena.states.apache_conf",
    "apache_module": "catena.states.apache_module",
    "apache_site": "catena.states.apache_site",
    "archive": "catena.states.archive",
    "cmd": "catena.states.cmd",
    "cron": "catena.states.cron",
    "debconf": "catena.states.debconf",
    "environ": "catena.states.environ",
    "event": "catena.states.event",
    "file": "catena.states.file",
    "firewalld": "catena.states.firewalld",
    "git": "catena.states.git",
    "grains": "catena.states.grains",
    "group": "catena.states.group",
    "host": "catena.states.host",
    "ini": "catena.states.ini",
    "iptables": "catena.states.iptables",
    "kmod": "catena.states.kmod",
    "locale": "catena.states.locale",
    "mgrcompat": "catena.states.mgrcompat",
    "module": "catena.states.module",
    "nftables": "catena.states.nftables",
    "mount": "catena.states.mount",
    "pip": "catena.states.pip",
    "pkg": "catena.states.pkg",
    "pkgrepo": "catena.states.pkgrepo",
    "postgres_database": "catena.states.postgres.database",
    "postgres_group": "catena.states.postgres.group",
    "postgres_user": "catena.states.postgres.user",
    "rsync": "catena.states.rsync",
    "service": "catena.states.service",
    "ssh_auth": "catena.states.ssh_auth",
    "ssh_known_hosts": "catena.states.ssh_known_hosts",
    "stateconf": "catena.states.stateconf",
    "sysctl": "catena.states.sysctl",
    "test": "catena.states.test",
    "timezone": "catena.states.timezone",
    "user": "catena.states.user",
}
