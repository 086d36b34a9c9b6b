"""Grains of machine, process and user, read from files without running a program."""

from __future__ import annotations

import grp
import os
import pwd
import re
import sys
import time
import zlib
from pathlib import Path
from typing import Any, Dict, List

import catena
from catena.core.patterns import lazy_pattern
from catena.runtime.grains.release import split_parameters

#: Release of Salt whose behaviour is provided (`cases/`); files of a tree compare with it.
SALT_RELEASE = (3008, 5)

#: Name of Python's implementation -> its name in Salt (platform.python_implementation()).
_IMPLEMENTATIONS = {"cpython": "CPython", "pypy": "PyPy"}
_SYSTEMD_LIBRARY = lazy_pattern(r"libsystemd-shared-([0-9]+)[^/]*\.so")
#: Text in the DMI vendor or product -> Salt's `virtual`.
_HYPERVISORS = (
    ("VMware", "VMware"),
    ("VirtualBox", "VirtualBox"),
    ("KVM", "kvm"),
    ("QEMU", "kvm"),
    ("RHEV", "kvm"),
    ("oVirt", "kvm"),
    ("OpenStack", "kvm"),
    ("Amazon EC2", "kvm"),
    ("Google Compute Engine", "kvm"),
    ("Parallels", "Parallels"),
    ("HVM domU", "xen"),
    ("Xen", "xen"),
    ("Virtual Machine", "VirtualPC"),
)
#: Name of a container system -> Salt's `virtual_subtype`.
_CONTAINERS = {
    "docker": "Docker",
    "podman": "Podman",
    "lxc": "LXC",
    "lxc-libvirt": "LXC",
    "systemd-nspawn": "systemd-nspawn",
    "openvz": "OpenVZ",
}


def collect(root: Path) -> Dict[str, Any]:
    """Return the grains of the machine below *root* and of this process."""
    grains: Dict[str, Any] = {}
    for part in (_processor, _memory, _virtual, _init, _selinux, _firmware, _disks):
        grains.update(part(root))
    grains.update(_process())
    parameters = _text(root / "proc/cmdline").strip()
    if parameters:
        grains["kernelparams"] = split_parameters(parameters)
    machine_id = _text(root / "etc/machine-id").strip()
    if machine_id:
        grains["machine_id"] = machine_id
    grains["transactional"] = (root / "usr/sbin/transactional-update").exists()
    return grains


def server_id(minion: str) -> int:
    """Return a number below 2**31 derived from the minion's id."""
    return zlib.crc32(minion.encode("utf-8")) % (1 << 31)


def _text(path: Path, limit: int = 1 << 20) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(limit).decode("utf-8", "replace")
    except OSError:
        return ""


def _processor(root: Path) -> Dict[str, Any]:
    found: Dict[str, Any] = {"num_cpus": 0, "cpu_model": "Unknown", "cpu_flags": []}
    for line in _text(root / "proc/cpuinfo", 1 << 22).splitlines():
        name, _, value = line.partition(":")
        name, value = name.strip().lower(), value.strip()
        if name == "processor":
            found["num_cpus"] += 1
        elif name in ("model name", "cpu model"):
            found["cpu_model"] = value
        elif name in ("flags", "features"):
            found["cpu_flags"] = value.split()
    found["num_cpus"] = found["num_cpus"] or os.cpu_count() or 1
    return found


def _memory(root: Path) -> Dict[str, Any]:
    """Return mem_total and swap_total in MiB."""
    found = {"mem_total": 0, "swap_total": 0}
    names = {"MemTotal": "mem_total", "SwapTotal": "swap_total"}
    for line in _text(root / "proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        if name in names:
            found[names[name]] = int(value.split()[0]) // 1024
    return found


def _virtual(root: Path) -> Dict[str, Any]:
    container = _container(root)
    if container:
        return {"virtual": "container", "virtual_subtype": container}
    dmi = root / "sys/class/dmi/id"
    text = " ".join(_text(dmi / name).strip() for name in ("sys_vendor", "product_name"))
    text += " " + _text(dmi / "bios_vendor").strip()
    for mark, name in _HYPERVISORS:
        if mark in text:
            return {"virtual": name}
    if _text(root / "sys/hypervisor/type").strip() == "xen":
        return {"virtual": "xen"}
    if re.search(r"^flags\s*:.*\bhypervisor\b", _text(root / "proc/cpuinfo"), re.M):
        return {"virtual": "kvm"}
    return {"virtual": "physical"}


def _container(root: Path) -> str:
    if (root / ".dockerenv").exists():
        return "Docker"
    if (root / "run/.containerenv").exists():
        return "Podman"
    name = _text(root / "run/systemd/container").strip()
    for entry in _text(root / "proc/1/environ").split("\0"):
        if not name and entry.startswith("container="):
            name = entry.partition("=")[2]
    return _CONTAINERS.get(name, name)


def _init(root: Path) -> Dict[str, Any]:
    found: Dict[str, Any] = {"init": _init_name(root)}
    for folder in ("usr/lib/systemd", "lib/systemd"):
        for path in sorted((root / folder).glob("libsystemd-shared-*")):
            match = _SYSTEMD_LIBRARY.fullmatch(path.name)
            if match:
                found["systemd"] = {"version": match[1], "features": ""}
    if "systemd" not in found:
        for path in sorted((root / "usr/lib").glob("*/systemd/libsystemd-shared-*")):
            match = _SYSTEMD_LIBRARY.fullmatch(path.name)
            if match:
                found["systemd"] = {"version": match[1], "features": ""}
    return found


def _init_name(root: Path) -> str:
    if (root / "run/systemd/system").is_dir():
        return "systemd"
    name = Path(_text(root / "proc/1/cmdline").partition("\0")[0]).name
    known = {"init": "sysvinit", "runit": "runit", "runit-init": "runit", "upstart": "upstart"}
    known.update({"tini": "tini", "dumb-init": "dumb-init", "supervisord": "supervisord"})
    return known.get(name, "unknown")


def _selinux(root: Path) -> Dict[str, Any]:
    text = _text(root / "sys/fs/selinux/enforce").strip()
    if not text:
        return {"selinux": {"enabled": False, "enforced": "Disabled"}}
    return {"selinux": {"enabled": True, "enforced": "Enforcing" if text == "1" else "Permissive"}}


def _firmware(root: Path) -> Dict[str, Any]:
    dmi = root / "sys/class/dmi/id"
    names = {
        "biosversion": "bios_version",
        "biosreleasedate": "bios_date",
        "manufacturer": "sys_vendor",
        "productname": "product_name",
        "serialnumber": "product_serial",
        "uuid": "product_uuid",
    }
    texts = {grain: _text(dmi / name).strip() for grain, name in names.items()}
    found: Dict[str, Any] = {grain: text for grain, text in texts.items() if text}
    if "uuid" in found:
        found["uuid"] = found["uuid"].lower()
    efi = root / "sys/firmware/efi"
    found["efi"] = efi.exists()
    found["efi-secure-boot"] = (
        any((efi / "efivars").glob("SecureBoot-*")) if efi.exists() else False
    )
    return found


def _disks(root: Path) -> Dict[str, Any]:
    found: Dict[str, List[str]] = {"disks": [], "ssds": []}
    for path in sorted((root / "sys/block").glob("*")):
        if path.name.startswith(("ram", "zram", "dm-", "md")):
            continue
        turns = _text(path / "queue/rotational").strip()
        if turns in ("0", "1"):
            found["ssds" if turns == "0" else "disks"].append(path.name)
    return dict(found)


def _process() -> Dict[str, Any]:
    uid, gid = os.geteuid(), os.getegid()
    search = os.environ.get("PATH", os.defpath)
    version = [*sys.version_info[:3], sys.version_info.releaselevel, sys.version_info.serial]
    return {
        "uid": uid,
        "gid": gid,
        "username": _name_of(pwd.getpwuid, uid),
        "groupname": _name_of(grp.getgrgid, gid),
        "pid": os.getpid(),
        "path": search,
        "systempath": search.split(os.pathsep),
        "shell": os.environ.get("SHELL", "/bin/sh"),
        "ps": "ps -efHww",
        "pythonversion": version,
        "pythonexecutable": sys.executable,
        "pythonpath": list(sys.path),
        "saltpath": str(Path(catena.__file__).parent),
        "saltversion": catena.__version__,
        "saltversioninfo": list(SALT_RELEASE),
        "catenaversion": catena.__version__,
        "locale_info": _locale(),
        "implementation": _implementation(),
    }


def _name_of(lookup: Any, number: int) -> str:
    try:
        return str(lookup(number)[0])
    except KeyError:
        return str(number)


def _implementation() -> str:
    own = sys.implementation.name
    return _IMPLEMENTATIONS.get(own, own)


def _locale() -> Dict[str, Any]:
    import locale

    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        language, _, encoding = os.environ.get(name, "").partition(".")
        if language:
            break
    return {
        "defaultlanguage": None if language in ("", "C", "POSIX") else language,
        "defaultencoding": encoding or locale.getpreferredencoding(False),
        "detectedencoding": sys.getdefaultencoding(),
        "timezone": time.tzname[0],
    }
