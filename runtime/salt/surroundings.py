"""Stand-ins for Salt's configuration, loader, paths and grains: they show this minion's own."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from catena.core.errors import CommandExecutionError
from catena.runtime.salt import current

Names = Dict[str, Any]

#: Settings that custom files take from Salt's defaults where `__opts__` lacks them.
_DEFAULTS: Mapping[str, Any] = {
    "default_include": "minion.d/*.conf",
    "cachedir": "/var/cache/catena",
    "conf_file": "/etc/catena/minion",
    "file_client": "remote",
    "hash_type": "sha256",
    "saltenv": "base",
    "renderer": "jinja|yaml",
    "root_dir": "/",
    "state_top": "top.sls",
    "test": False,
}


def _minion_config(path: Any = None, *_: Any, **__: Any) -> Names:
    return {**_DEFAULTS, **current.options()}


def _refused(kind: str) -> Callable[..., Names]:
    def refuse(*_: Any, **__: Any) -> Names:
        raise CommandExecutionError(
            f"salt.config.{kind} is the configuration of a master; custom files of a minion have "
            "__opts__ and salt.config.minion_config"
        )

    return refuse


def _config() -> Names:
    return {
        "DEFAULT_MINION_OPTS": dict(_DEFAULTS),
        "minion_config": _minion_config,
        "client_config": _refused("client_config"),
        "master_config": _refused("master_config"),
    }


def _functions(*_: Any, **__: Any) -> Any:
    return current.function_map()


def _states(*_: Any, **__: Any) -> Any:
    return current.state_map()


def _grains(*_: Any, **__: Any) -> Names:
    return dict(current.context().grains)


def _utilities(*_: Any, **__: Any) -> Any:
    found = getattr(current.context().functions, "utilities", None)
    if found is None:
        raise CommandExecutionError(
            "salt.loader.utils is not available while grains are collected"
        )
    return found(current.context())


def _loader() -> Names:
    return {
        "minion_mods": _functions,
        "states": _states,
        "grains": _grains,
        "utils": _utilities,
        "LazyLoader": _lazy_loader,
    }


def _lazy_loader(*_: Any, **__: Any) -> Any:
    raise CommandExecutionError(
        "catena has no salt.loader.LazyLoader; use salt.loader.minion_mods, states or grains"
    )


def _syspaths() -> Names:
    opts = current.context().opts
    config = str(opts.get("conf_dir") or Path(_DEFAULTS["conf_file"]).parent)
    cache = str(opts.get("cachedir") or _DEFAULTS["cachedir"])
    return {
        "ROOT_DIR": "/",
        "CONFIG_DIR": config,
        "CACHE_DIR": cache,
        "SOCK_DIR": "/run/catena",
        "PIDFILE_DIR": "/run",
        "LOGS_DIR": "/var/log/catena",
        "SRV_ROOT_DIR": "/srv",
        "BASE_FILE_ROOTS_DIR": "/srv/salt",
        "BASE_PILLAR_ROOTS_DIR": "/srv/pillar",
        "BASE_MASTER_ROOTS_DIR": "/srv/salt-master",
        "INSTALL_DIR": str(Path(__file__).parents[2]),
        "HOME_DIR": str(Path.home()),
        "SPM_FORMULA_PATH": "/srv/spm/salt",
    }


#: Functions of salt.grains.core -> the grains that they return; () stands for all.
_CORE: Mapping[str, Sequence[str]] = {
    "append_domain": ("append_domain",),
    "default_gateway": ("ip_gw", "ip4_gw", "ip6_gw"),
    "dns": ("dns",),
    "fqdns": ("fqdns",),
    "get_machine_id": ("machine_id",),
    "get_server_id": ("server_id",),
    "hostname": ("localhost", "fqdn", "host", "domain"),
    "hwaddr_interfaces": ("hwaddr_interfaces",),
    "id_": ("id",),
    "ip4_interfaces": ("ip4_interfaces",),
    "ip6_interfaces": ("ip6_interfaces",),
    "ip_fqdn": ("ipv4", "ipv6", "fqdn_ip4", "fqdn_ip6"),
    "ip_interfaces": ("ip_interfaces",),
    "kernelparams": ("kernelparams",),
    "locale_info": ("locale_info",),
    "os_data": (),
    "path": ("path", "systempath"),
    "pythonexecutable": ("pythonexecutable",),
    "pythonpath": ("pythonpath",),
    "pythonversion": ("pythonversion",),
    "saltpath": ("saltpath",),
    "saltversion": ("saltversion",),
    "saltversioninfo": ("saltversioninfo",),
    "shell": ("shell",),
}


def _collected(names: Sequence[str]) -> Callable[..., Names]:
    def collected(grains: Optional[Names] = None) -> Names:
        found = _all_grains()
        return {name: found[name] for name in names if name in found} if names else found

    return collected


def _all_grains() -> Names:
    return dict(current.context().grains)


def _grains_core() -> Names:
    return {name: _collected(names) for name, names in _CORE.items()}


def _logs() -> Names:
    def nothing(*_: Any, **__: Any) -> None:
        """Leave the log as the agent has configured it."""

    return {
        "LOG_LEVELS": {"all": 0, "trace": 5, "debug": 10, "info": 20, "warning": 30, "error": 40},
        "getLogger": logging.getLogger,
        "setup_console_logger": nothing,
        "setup_logfile_logger": nothing,
        "setup_temp_logger": nothing,
    }


def _returner_options(
    virtualname: str = "",
    ret: Any = None,
    attrs: Optional[Mapping[str, str]] = None,
    defaults: Optional[Mapping[str, Any]] = None,
    **_: Any,
) -> Names:
    """Return the options of a returner, as `<name>.<attribute>` of the configuration has them."""
    found: Names = {}
    for label, key in (attrs or {}).items():
        usual = (defaults or {}).get(label)
        value = current.invoke("config.option", f"{virtualname}.{key}", usual)
        if value not in (None, ""):
            found[label] = value
    return found


#: Names of each module, by its full name.
NAMES: Mapping[str, Callable[[], Names]] = {
    "salt.config": _config,
    "salt.grains.core": _grains_core,
    "salt.loader": _loader,
    "salt.log": _logs,
    "salt.log.setup": _logs,
    "salt.returners": lambda: {"get_returner_options": _returner_options},
    "salt.syspaths": _syspaths,
}
