"""Where the daemons keep their files: one rule for master and minion."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Container, Dict, Mapping, TypeVar, cast

from catena.core import frozen

C = TypeVar("C")

#: Where a packaged installation has its configuration.
CONFIG_DIR = "/etc/catena"
#: Beside the configuration: the key ring of the gpg renderer.
GPG_KEYS = "gpgkeys"
#: Beside the configuration: the hosts that SSH reaches.
ROSTER = "roster"
#: In pki_dir: their keys.
SSH_KNOWN_HOSTS = "ssh_known_hosts"
#: Folder of what belongs to a configuration that lies elsewhere.
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
    """Return *settings* with each of the daemon's own folders where it belongs.

    A folder that was set stays. With root_dir the others lie below it, as Salt puts them; with a
    configuration outside /etc/catena and no root_dir they lie beside that configuration, so that
    two daemons never share one by accident and no root is needed.

    Args:
        settings: MasterSettings or MinionSettings.
        given: names that the configuration set.
        config_dir: folder of the configuration.
        kind: "master" or "minion", for folders beside the configuration.
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
