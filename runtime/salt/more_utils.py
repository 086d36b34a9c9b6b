"""More stand-ins for `salt.utils` modules that public custom modules import."""

from __future__ import annotations

import collections
import contextlib
import hashlib
import ipaddress
import os
import re
import secrets
import shutil
import socket
import tempfile
from functools import total_ordering
from pathlib import Path
from types import FunctionType
from typing import Any, Callable, Dict, Iterator, List, Mapping, Tuple

Names = Dict[str, Any]


@total_ordering
class LooseVersion:
    """A version that compares its numbers as numbers and its words alphabetically."""

    def __init__(self, text: Any = "") -> None:
        self.vstring = str(text)
        parts = re.findall(r"\d+|[a-z]+", self.vstring.lower())
        self.version = [int(part) if part.isdigit() else part for part in parts]

    def _key(self) -> List[Tuple[int, int, str]]:
        # A word is older than a number: 1.0rc1 comes before 1.0.1.
        return [(1, p, "") if isinstance(p, int) else (0, 0, str(p)) for p in self.version]

    def __eq__(self, other: object) -> bool:
        return self._key() == LooseVersion(other)._key()

    def __lt__(self, other: object) -> bool:
        return self._key() < LooseVersion(other)._key()

    def __hash__(self) -> int:
        return hash(tuple(self._key()))

    def __str__(self) -> str:
        return self.vstring


def _version_cmp(first: Any, second: Any, *_: Any, **__: Any) -> int:
    one, two = LooseVersion(first), LooseVersion(second)
    return (one > two) - (one < two)


def _compare(first: str = "", oper: str = "==", second: str = "", **_: Any) -> bool:
    sign = _version_cmp(first, second)
    wanted = {"<": (-1,), "<=": (-1, 0), "==": (0,), "!=": (-1, 1), ">=": (0, 1), ">": (1,)}
    return sign in wanted.get(oper, ())


def _copied(function: FunctionType, name: str, doc: str = "") -> FunctionType:
    made = FunctionType(
        function.__code__, function.__globals__, name, function.__defaults__, function.__closure__
    )
    made.__dict__.update(function.__dict__)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__doc__ = doc or function.__doc__
    return made


def _namespaced(function: FunctionType, names: Names, *_: Any, **__: Any) -> FunctionType:
    made = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    made.__dict__.update(function.__dict__)
    return made


def _mkstemp(*args: Any, close_fd: bool = True, **options: Any) -> Any:
    handle, path = tempfile.mkstemp(*args, **options)
    if not close_fd:
        return handle, path
    os.close(handle)
    return path


@contextlib.contextmanager
def _umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def _remove(path: str) -> None:
    Path(path).unlink(missing_ok=True)


def _remove_all(path: str) -> None:
    if Path(path).is_dir() and not Path(path).is_symlink():
        shutil.rmtree(path)
    else:
        _remove(path)


def files() -> Names:
    """Return the names of `salt.utils.files` other than the open functions."""
    return {
        "mkstemp": _mkstemp,
        "set_umask": _umask,
        "safe_rm": _remove,
        "remove": _remove,
        "rm_rf": _remove_all,
        "rename": os.replace,
        "copyfile": shutil.copyfile,
    }


def _deep_diff(old: Mapping[str, Any], new: Mapping[str, Any], *_: Any, **__: Any) -> Names:
    before = {key: value for key, value in old.items() if new.get(key) != value}
    after = {key: value for key, value in new.items() if old.get(key) != value}
    return {**({"old": before} if before else {}), **({"new": after} if after else {})}


def compare_dicts(old: Mapping[str, Any], new: Mapping[str, Any]) -> Names:
    """Return {key: {"old": …, "new": …}} of differing values; "" stands for a missing key."""
    keys = dict.fromkeys((*old, *new))
    return {
        key: {"old": old.get(key, ""), "new": new.get(key, "")}
        for key in keys
        if (key in old) != (key in new) or old.get(key) != new.get(key)
    }


def _digest(kind: str) -> Callable[[Any], str]:
    def digest(value: Any) -> str:
        data = value if isinstance(value, bytes) else str(value).encode()
        return hashlib.new(kind, data).hexdigest()

    return digest


def _file_hash(path: str, form: str = "sha256", **_: Any) -> str:
    found = hashlib.new(form)
    with Path(path).open("rb") as handle:
        for block in iter(lambda: handle.read(1 << 20), b""):
            found.update(block)
    return found.hexdigest()


def _random_hash(size: int = 32, hash_type: str = "sha256") -> str:
    return hashlib.new(hash_type, secrets.token_bytes(size)).hexdigest()


def _is_address(kind: Callable[[str], Any]) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        try:
            kind(str(value).partition("/")[0])
        except ValueError:
            return False
        return True

    return check


def _in_subnet(cidr: Any, address: Any = None) -> bool:
    network = ipaddress.ip_network(str(cidr), strict=False)
    listed = address if isinstance(address, (list, tuple)) else [address]
    return any(ipaddress.ip_address(str(one)) in network for one in listed if one)


def _host_to_ips(host: str) -> Any:
    try:
        found = socket.getaddrinfo(host, None)
    except OSError:
        return None
    return list(dict.fromkeys(str(one[4][0]) for one in found)) or None


def _freeze(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _freeze(item) for key, item in value.items()}
    return tuple(map(_freeze, value)) if isinstance(value, (list, tuple)) else value


def _user() -> str:
    import pwd

    return pwd.getpwuid(os.geteuid()).pw_name


def _booted(*_: Any) -> bool:
    return Path("/run/systemd/system").is_dir()


#: Names of each module, by its full name.
NAMES: Mapping[str, Callable[[], Names]] = {
    "salt.utils.dictdiffer": lambda: {"deep_diff": _deep_diff, "recursive_diff": compare_dicts},
    "salt.utils.functools": lambda: {
        "alias_function": _copied,
        "namespaced_function": _namespaced,
    },
    "salt.utils.hashutils": lambda: {
        "md5_digest": _digest("md5"),
        "sha1_digest": _digest("sha1"),
        "sha256_digest": _digest("sha256"),
        "sha512_digest": _digest("sha512"),
        "get_hash": _file_hash,
        "random_hash": _random_hash,
    },
    "salt.utils.immutabletypes": lambda: {"freeze": _freeze},
    "salt.utils.network": lambda: {
        "in_subnet": _in_subnet,
        "host_to_ips": _host_to_ips,
        "get_fqhostname": socket.getfqdn,
        "is_ipv4": _is_address(ipaddress.IPv4Address),
        "is_ipv6": _is_address(ipaddress.IPv6Address),
        "is_ip": _is_address(ipaddress.ip_address),
    },
    "salt.utils.odict": lambda: {"OrderedDict": collections.OrderedDict},
    "salt.utils.systemd": lambda: {"booted": _booted},
    "salt.utils.url": lambda: {
        "create": lambda path, saltenv=None: (
            f"salt://{path}?saltenv={saltenv}" if saltenv else f"salt://{path}"
        )
    },
    "salt.utils.user": lambda: {"get_user": _user},
    "salt.utils.validate": dict,
    "salt.utils.validate.net": lambda: {
        "ipv4_addr": _is_address(ipaddress.IPv4Address),
        "ipv6_addr": _is_address(ipaddress.IPv6Address),
        "ip_addr": _is_address(ipaddress.ip_address),
    },
}


def versions() -> Names:
    """Return the names of `salt.utils.versions` other than warn_until."""
    return {
        "LooseVersion": LooseVersion,
        "StrictVersion": LooseVersion,
        "Version": LooseVersion,
        "version_cmp": _version_cmp,
        "compare": _compare,
    }
