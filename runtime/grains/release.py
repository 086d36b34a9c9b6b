"""Which operating system this is, under Salt's names (os, os_family, osfinger, …)."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any, Dict, List, Union

from catena.core.frozen import dataclass
from catena.core.patterns import lazy_pattern

#: os-release ID -> (os, os_family).
_BY_ID: Dict[str, tuple[str, str]] = {
    "almalinux": ("AlmaLinux", "RedHat"),
    "alpine": ("Alpine", "Alpine"),
    "amzn": ("Amazon", "RedHat"),
    "arch": ("Arch", "Arch"),
    "astra": ("AstraLinuxCE", "Debian"),
    "centos": ("CentOS", "RedHat"),
    "debian": ("Debian", "Debian"),
    "devuan": ("Devuan", "Debian"),
    "endeavouros": ("EndeavourOS", "Arch"),
    "fedora": ("Fedora", "RedHat"),
    "gentoo": ("Gentoo", "Gentoo"),
    "kali": ("Kali", "Debian"),
    "linuxmint": ("Mint", "Debian"),
    "manjaro": ("Manjaro", "Arch"),
    "ol": ("OEL", "RedHat"),
    "parrot": ("Parrot OS", "Debian"),
    "photon": ("VMware Photon OS", "RedHat"),
    "pop": ("Pop", "Debian"),
    "raspbian": ("Raspbian", "Debian"),
    "rhel": ("RedHat", "RedHat"),
    "rocky": ("Rocky", "RedHat"),
    "ubuntu": ("Ubuntu", "Debian"),
    "void": ("Void", "Void"),
}
_SUSE_IDS = ("opensuse", "sles", "sled", "sle-micro", "sl-micro", "suse")
#: ID_LIKE -> os_family, for systems that are not in the table above.
_LIKE = {
    "debian": "Debian",
    "ubuntu": "Debian",
    "rhel": "RedHat",
    "fedora": "RedHat",
    "centos": "RedHat",
    "suse": "Suse",
    "arch": "Arch",
}
#: The kernel's machine types -> dpkg's names.
_DPKG_ARCH = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "i386": "i386",
    "i686": "i386",
    "armv7l": "armhf",
    "armv6l": "armel",
    "ppc64le": "ppc64el",
}
_IN_BRACKETS = lazy_pattern(r"\(([^)]*)\)")
_RELEASE_NUMBER = lazy_pattern(r"release\s+([0-9][0-9.]*)")


@dataclass(frozen=True)
class _Release:
    """An os-release file, and the root in which it was read."""

    root: Path
    fields: Dict[str, str]

    def get(self, name: str) -> str:
        return self.fields.get(name, "")


def collect(root: Path) -> Dict[str, Any]:
    """Return the grains about the operating system installed below *root*."""
    release = _Release(root, _read_fields(root))
    uname = os.uname()
    name, family = _name(release)
    full = _full_name(release, name, family)
    number = _number(release, name)
    info = [_as_number(part) for part in number.split(".")] if number else []
    grains: Dict[str, Any] = {
        "kernel": uname.sysname,
        "kernelrelease": uname.release,
        "kernelversion": uname.version,
        "cpuarch": uname.machine,
        "nodename": uname.nodename,
        "os": name,
        "os_family": family,
        "osfullname": full,
        "osrelease": number,
        "osrelease_info": info,
        "oscodename": _code_name(release, name, family),
        "osarch": _architecture(root, family, uname.machine),
    }
    if info:
        grains["osmajorrelease"] = info[0]
    last = number if name in ("Ubuntu", "Pop") else str(info[0]) if info else ""
    grains["osfinger"] = f"{name if name in ('Debian', 'Raspbian') else full}-{last}"
    grains.update(_lsb(release, number, grains["oscodename"]))
    return grains


def _read_fields(root: Path) -> Dict[str, str]:
    for name in ("etc/os-release", "usr/lib/os-release"):
        found = read_assignments(root / name)
        if found:
            return found
    return {}


def read_assignments(path: Path) -> Dict[str, str]:
    """Return the NAME=value lines of a file such as os-release; {} if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    found = {}
    for line in text.splitlines():
        name, sign, value = line.strip().partition("=")
        if not sign or name.startswith("#"):
            continue
        try:
            found[name] = "".join(shlex.split(value)[:1])
        except ValueError:
            found[name] = value
    return found


def _name(release: _Release) -> tuple[str, str]:
    identity = release.get("ID").lower()
    if identity.startswith(_SUSE_IDS):
        return "SUSE", "Suse"
    if identity == "centos" and "Stream" in release.get("NAME"):
        return "CentOS Stream", "RedHat"
    if identity == "astra" and release.get("VARIANT_ID") == "smolensk":
        return "AstraLinuxSE", "Debian"
    if identity in _BY_ID:
        return _BY_ID[identity]
    name = release.get("NAME") or "Linux"
    families = [_LIKE[like] for like in release.get("ID_LIKE").split() if like in _LIKE]
    short = re.sub(r"\s*(GNU/)?Linux$", "", name) or name
    return short, families[0] if families else short


def _full_name(release: _Release, name: str, family: str) -> str:
    full = release.get("NAME") or name
    if family != "Suse":
        return full
    if full == "openSUSE":
        tumbles = "Tumbleweed" in release.get("VERSION") + release.get("PRETTY_NAME")
        return "Tumbleweed" if tumbles else "Leap"
    return full[len("openSUSE ") :] if full.startswith("openSUSE ") else full


def _number(release: _Release, name: str) -> str:
    if name == "CentOS":
        found = _RELEASE_NUMBER.search(_text(release.root / "etc/centos-release"))
        if found:
            return found[1]
    number = release.get("VERSION_ID")
    if number:
        return number
    found = re.search(r"\s([0-9][0-9.]*)\b", release.get("PRETTY_NAME"))
    if found:
        return found[1]
    return _text(release.root / "etc/debian_version").strip()


def _code_name(release: _Release, name: str, family: str) -> str:
    if family == "Suse" or name.startswith("CentOS"):
        return release.get("PRETTY_NAME")
    if release.get("VERSION_CODENAME"):
        return release.get("VERSION_CODENAME")
    if name == "AstraLinuxSE":
        return release.get("VARIANT_ID")
    found = _IN_BRACKETS.search(release.get("VERSION"))
    return found[1] if found else release.get("PRETTY_NAME")


def _architecture(root: Path, family: str, machine: str) -> str:
    if family == "Debian":
        listed = _text(root / "var/lib/dpkg/arch").split()
        return listed[0] if listed else _DPKG_ARCH.get(machine, machine)
    return machine


def _lsb(release: _Release, number: str, code_name: str) -> Dict[str, str]:
    lsb = read_assignments(release.root / "etc/lsb-release")
    found = {
        "lsb_distrib_id": lsb.get("DISTRIB_ID") or release.get("NAME"),
        "lsb_distrib_release": lsb.get("DISTRIB_RELEASE") or number,
        "lsb_distrib_codename": lsb.get("DISTRIB_CODENAME") or code_name,
    }
    if lsb.get("DISTRIB_DESCRIPTION"):
        found["lsb_distrib_description"] = lsb["DISTRIB_DESCRIPTION"]
    return found


def _as_number(text: str) -> Union[int, str]:
    return int(text) if text.isdigit() else text


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def split_parameters(text: str) -> List[List[Any]]:
    """Return a kernel command line as [[name, value or None], …]."""
    found = []
    for word in text.split():
        name, sign, value = word.partition("=")
        found.append([name, value if sign else None])
    return found
