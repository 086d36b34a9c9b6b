"""Turn Salt's arguments of a container into options of `docker create`. Nothing here runs it."""

from __future__ import annotations

import hashlib
import json
import shlex
from typing import Any, Dict, List, Mapping, Tuple

from catena.core.errors import UsageError
from catena.core.frozen import dataclass
from catena.core.suggest import unknown
from catena.modules.shared.arguments import truth

#: Label with the digest of the arguments with which a container was created.
LABEL = "catena.config"

_TEXTS = {
    "hostname": "--hostname", "domainname": "--domainname", "user": "--user",
    "working_dir": "--workdir", "pid_mode": "--pid", "ipc_mode": "--ipc", "uts_mode": "--uts",
    "userns_mode": "--userns", "mem_limit": "--memory", "memswap_limit": "--memory-swap",
    "mem_reservation": "--memory-reservation", "mem_swappiness": "--memory-swappiness",
    "kernel_memory": "--kernel-memory", "shm_size": "--shm-size", "cpu_shares": "--cpu-shares",
    "cpu_period": "--cpu-period", "cpu_quota": "--cpu-quota", "cpuset_cpus": "--cpuset-cpus",
    "cpuset_mems": "--cpuset-mems", "cpus": "--cpus", "pids_limit": "--pids-limit",
    "oom_score_adj": "--oom-score-adj", "blkio_weight": "--blkio-weight",
    "cgroup_parent": "--cgroup-parent", "log_driver": "--log-driver",
    "volume_driver": "--volume-driver", "mac_address": "--mac-address",
    "network_mode": "--network", "runtime": "--runtime", "stop_signal": "--stop-signal",
    "stop_timeout": "--stop-timeout", "restart_policy": "--restart", "platform": "--platform",
}  # fmt: skip
_FLAGS = {
    "privileged": "--privileged", "tty": "--tty", "stdin_open": "--interactive",
    "read_only": "--read-only", "publish_all_ports": "--publish-all", "init": "--init",
    "oom_kill_disable": "--oom-kill-disable", "auto_remove": "--rm",
}  # fmt: skip
#: Options that may be repeated, and what is between the parts of a mapping's entry.
_LISTS = {
    "binds": ("--volume", ":"), "volumes": ("--volume", ":"),
    "volumes_from": ("--volumes-from", ":"), "port_bindings": ("--publish", ":"),
    "ports": ("--expose", "/"), "cap_add": ("--cap-add", "="), "cap_drop": ("--cap-drop", "="),
    "devices": ("--device", ":"), "dns": ("--dns", "="), "dns_search": ("--dns-search", "="),
    "dns_opt": ("--dns-option", "="), "extra_hosts": ("--add-host", ":"),
    "group_add": ("--group-add", "="), "links": ("--link", ":"),
    "security_opt": ("--security-opt", "="), "tmpfs": ("--tmpfs", ":"),
    "ulimits": ("--ulimit", "="), "sysctls": ("--sysctl", "="), "log_opt": ("--log-opt", "="),
    "storage_opt": ("--storage-opt", "="), "labels": ("--label", "="),
    "device_read_bps": ("--device-read-bps", ":"), "device_write_bps": ("--device-write-bps", ":"),
    "device_read_iops": ("--device-read-iops", ":"),
    "device_write_iops": ("--device-write-iops", ":"),
}  # fmt: skip
#: Other names of arguments, as in Salt.
_ALIASES = {
    "cmd": "command", "env": "environment", "volume": "volumes", "bind": "binds",
    "device": "devices", "link": "links", "label": "labels", "log_opts": "log_opt",
    "ulimit": "ulimits", "sysctl": "sysctls", "publish": "port_bindings", "expose": "ports",
    "publish_all": "publish_all_ports", "restart": "restart_policy", "rm": "auto_remove",
    "memory": "mem_limit", "memory_swap": "memswap_limit", "cpuset": "cpuset_cpus",
    "dns_option": "dns_opt", "domain": "domainname", "interactive": "stdin_open",
    "ipc": "ipc_mode", "pid": "pid_mode", "user_ns_mode": "userns_mode",
    "security_opts": "security_opt", "workdir": "working_dir",
    "add_host": "extra_hosts", "network": "network_mode", "tmpfs_mounts": "tmpfs",
}  # fmt: skip
#: Arguments that only docker-py needs.
_IGNORED = frozenset(
    "skip_translate ignore_collisions validate_ip_addrs client_timeout detach use_config_proxy"
    " networking_config stdin_once".split()
)
_OTHERS = ("command", "environment", "entrypoint", "networks")


@dataclass(frozen=True)
class Creation:
    """How a container is created."""

    #: Options of `docker create` before the image, without name and label.
    options: Tuple[str, ...]
    #: Words after the image.
    command: Tuple[str, ...] = ()
    #: Text of an --env-file; may hold passwords.
    environment: str = ""
    #: Further networks with their options of `docker network connect`.
    networks: Tuple[Tuple[str, Tuple[str, ...]], ...] = ()

    def digest(self) -> str:
        """Return the digest of everything, by which a container is known to be unchanged."""
        parts = [self.options, self.command, self.environment, self.networks]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def creation(given: Mapping[str, Any]) -> Creation:
    """Return how to create a container with Salt's arguments.

    Raises:
        UsageError: an argument is unknown or makes no sense.
    """
    left = _named(given)
    options: List[str] = []
    command = _words("command", left.pop("command", None))
    entry = _words("entrypoint", left.pop("entrypoint", None))
    if entry:
        options += ["--entrypoint", entry[0]]
        command = [*entry[1:], *command]
    environment = _environment(left.pop("environment", None))
    networks = _networks(left.pop("networks", None))
    if networks and "network_mode" not in left:
        first, rest = networks[0], networks[1:]
        # `create` has another name for this option than `network connect`.
        alias = {"--alias": "--network-alias"}
        options += ["--network", first[0], *(alias.get(one, one) for one in first[1])]
        networks = rest
    for key in sorted(left):
        options += _option(key, left[key])
    return Creation(tuple(options), tuple(command), environment, tuple(networks))


def _named(given: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the arguments by their main names, without those that have no value."""
    known = [*_TEXTS, *_FLAGS, *_LISTS, *_OTHERS, *_IGNORED]
    found: Dict[str, Any] = {}
    for key, value in given.items():
        name = _ALIASES.get(key, key)
        if name not in known:
            raise UsageError(unknown("argument of a container", key, [*known, *_ALIASES]))
        if name in found:
            raise UsageError(f"{key} is another name of {name}, which is given too")
        if name not in _IGNORED and value is not None:
            found[name] = value
    return found


def _option(key: str, value: Any) -> List[str]:
    if key in _FLAGS:
        return [_FLAGS[key]] if truth(value) else []
    if key in _LISTS:
        option, between = _LISTS[key]
        return [word for one in _each(key, value, between) for word in (option, one)]
    if key == "restart_policy" and isinstance(value, Mapping):
        count = value.get("MaximumRetryCount")
        value = f"{value.get('Name', '')}" + (f":{count}" if count else "")
    return [_TEXTS[key], _line(key, value)]


def _line(key: str, value: Any) -> str:
    """Return a value as text of one line."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise UsageError(f"{key} can't be a {type(value).__name__}")
    text = str(value)
    if not text or any(mark in text for mark in "\r\n\0"):
        raise UsageError(f"{key}: {text[:80]!r} is not a line of text")
    return text


def _each(key: str, value: Any, between: str) -> List[str]:
    """Return the entries of a list, of a mapping, or of a text with commas."""
    if isinstance(value, str):
        parts: List[Any] = [one.strip() for one in value.split(",") if one.strip()]
    elif isinstance(value, Mapping):
        parts = [{name: item} for name, item in value.items()]
    else:
        parts = list(value) if isinstance(value, (list, tuple)) else [value]
    found = []
    for part in parts:
        if not isinstance(part, Mapping):
            found.append(_line(key, part))
            continue
        for name, item in part.items():
            if isinstance(item, Mapping):  # a bind of docker-py: {bind: PATH, mode: ro}
                item = between.join(str(item[one]) for one in ("bind", "mode") if one in item)
            found.append(_line(key, f"{name}{between}{item}" if item is not None else name))
    return found


def _words(key: str, value: Any) -> List[str]:
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        return [_plain(key, one) for one in value]
    try:
        return shlex.split(_plain(key, value))
    except ValueError as problem:
        raise UsageError(f"{key}: {problem}") from problem


def _plain(key: str, value: Any) -> str:
    if not isinstance(value, (str, int, float)) or "\0" in str(value):
        raise UsageError(f"{key}: {str(value)[:80]!r} is no text")
    return str(value)


def _environment(value: Any) -> str:
    """Return the lines NAME=VALUE of an --env-file.

    The message of an error never holds a value.
    """
    entries: List[Tuple[str, str]] = []
    parts = [value] if isinstance(value, Mapping) else value or []
    if isinstance(parts, str):
        parts = [one.strip() for one in parts.split(",")]
    if not isinstance(parts, (list, tuple)):
        raise UsageError(f"environment can't be a {type(value).__name__}")
    for part in parts:
        if isinstance(part, Mapping):
            entries += [(str(name), "" if item is None else str(item))
                        for name, item in part.items()]  # fmt: skip
        else:
            name, _, item = str(part).partition("=")
            entries.append((name, item))
    for name, item in entries:
        if not name or any(mark in name for mark in "=# \t\r\n\0"):
            raise UsageError(f"environment: {name[:80]!r} can't be the name of a variable")
        if any(mark in item for mark in "\r\n\0"):
            raise UsageError(f"environment: the value of {name} has several lines")
    return "".join(f"{name}={item}\n" for name, item in entries)


def _networks(value: Any) -> List[Tuple[str, Tuple[str, ...]]]:
    """Return each network with the options that connect a container to it."""
    if value is None:
        return []
    parts = value.split(",") if isinstance(value, str) else value
    if isinstance(parts, Mapping):
        parts = [{name: item} for name, item in parts.items()]
    if not isinstance(parts, (list, tuple)):
        raise UsageError(f"networks can't be a {type(value).__name__}")
    found: List[Tuple[str, Tuple[str, ...]]] = []
    for part in parts:
        if not isinstance(part, Mapping):
            found.append((_line("networks", part).strip(), ()))
            continue
        for name, settings in part.items():
            found.append((_line("networks", name), tuple(_connection(str(name), settings))))
    return found


def _connection(name: str, settings: Any) -> List[str]:
    pairs: Dict[str, Any] = {}
    for one in settings if isinstance(settings, (list, tuple)) else [settings or {}]:
        if not isinstance(one, Mapping):
            raise UsageError(f"networks: the options of {name} must be a mapping")
        pairs.update(one)
    words: List[str] = []
    for key, value in pairs.items():
        if key == "ipv4_address":
            words += ["--ip", _line(key, value)]
        elif key == "ipv6_address":
            words += ["--ip6", _line(key, value)]
        elif key == "aliases":
            for one in _each(key, value, "="):
                words += ["--alias", one]
        else:
            options = ("ipv4_address", "ipv6_address", "aliases")
            raise UsageError(f"networks: {name}: {unknown('option', key, options, few=True)}")
    return words
