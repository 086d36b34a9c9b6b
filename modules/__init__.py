"""Execution modules: what can be called on a host by name (test.ping, cmd.run, pkg.install)."""

from __future__ import annotations

from typing import Dict

#: Module name -> the Python module that holds its functions, imported on first use.
INDEX: Dict[str, str] = {
    "alternatives": "catena.modules.alternatives",
    "archive": "catena.modules.archive",
    "cmd": "catena.modules.cmd.functions",
    "config": "catena.modules.config",
    "cron": "catena.modules.cron",
    "defaults": "catena.modules.defaults",
    "disk": "catena.modules.disk",
    "environ": "catena.modules.environ",
    "event": "catena.modules.event",
    "file": "catena.modules.file.functions",
    "git": "catena.modules.git.functions",
    "group": "catena.modules.group",
    "hashutil": "catena.modules.hashutil",
    "hosts": "catena.modules.hosts",
    "ini": "catena.modules.ini",
    "log": "catena.modules.log",
    "match": "catena.modules.match",
    "network": "catena.modules.network.functions",
    "pkg": "catena.modules.pkg.functions",
    "random": "catena.modules.random",
    "service": "catena.modules.service.functions",
    "shadow": "catena.modules.shadow",
    "slsutil": "catena.modules.slsutil",
    "status": "catena.modules.status",
    "sys": "catena.modules.sys",
    "system": "catena.modules.system",
    "test": "catena.modules.test",
    "timezone": "catena.modules.timezone",
    "user": "catena.modules.user",
}
