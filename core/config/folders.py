"""Locations of the daemons' files: one rule for master and minion."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Container, Dict, Mapping, TypeVar, cast

from catena.core import frozen

C = TypeVar("C")

#: Configuration folder of a packaged installation.
CONFIG_DIR = "/etc/catena"
#: Name beside the configuration: the key ring of the gpg renderer.
GPG_KEYS = "gpgkeys"
#: Name beside the configuration: the hosts reached by SSH.
ROSTER = "roster"
#: Name in pki_dir: host keys of the hosts reached by SSH.
SSH_KNOWN_HOSTS = "ssh_known_hosts"
#: Name of the state folder beside a configuration outside /etc/catena.
BESIDE = "state"
#: Setting -> its name below BESIDE, for the settings that name a daemon's own folder or file.
_SHORT: Mapping[str, str] = {
    "cache_dir": "cache",
    "state_dir": "lib",
    "pki_dir": "pki",
    "run_dir": "run",
    "log_file": "log",
    "agent_dir": "agent",
}


def placed(settings: C, given: Container[str], config_dir: Path, kind: str) -> C:
    """Return *settings* with the default location of each of the daemon's folders filled in.

    A folder that the configuration set stays as it is. With root_dir the others are below it, as
    in Salt. With a configuration outside /etc/catena and without root_dir they are beside that
    configuration, so that two daemons do not share a folder by accident and root is not required.

    Args:
        settings: MasterSettings or MinionSettings.
        given: names of the settings in the configuration.
        config_dir: folder of the configuration.
        kind: "master" or "minion", the name of the folder beside the configuration.
    """
    record = cast(Any, settings)
    beside = config_dir.resolve() != Path(CONFIG_DIR)
    changes: Dict[str, Any] = {}
    for name, short in _SHORT.items():
        value = getattr(record, name, "-")
        if name in given or value == "-":
            continue
        if record.root_dir:
            changes[name] = str(Path(record.root_dir) / value.lstrip("/"))
        elif beside:
            changes[name] = str(config_dir.resolve() / BESIDE / kind / short)
    if getattr(record, "gpg_keydir", "-") == "":
        changes["gpg_keydir"] = str(config_dir.resolve() / GPG_KEYS)
    if getattr(record, "roster_file", "-") == "":
        changes["roster_file"] = str(config_dir.resolve() / ROSTER)
    if getattr(record, "ssh_known_hosts_file", "-") == "":
        pki = changes.get("pki_dir", getattr(record, "pki_dir", ""))
        changes["ssh_known_hosts_file"] = str(Path(pki) / SSH_KNOWN_HOSTS)
    return cast(C, frozen.replace(record, **changes))
