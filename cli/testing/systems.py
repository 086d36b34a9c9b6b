"""Grains of common systems, so that a test need not list them."""

from __future__ import annotations

from typing import Any, Dict, Mapping

_COMMON: Mapping[str, Any] = {
    "kernel": "Linux",
    "init": "systemd",
    "virtual": "physical",
    "num_cpus": 2,
    "mem_total": 4096,
    "cpuarch": "x86_64",
}


def _debian(os: str, release: str, codename: str) -> Dict[str, Any]:
    major = release.partition(".")[0]
    return {
        **_COMMON,
        "os": os,
        "os_family": "Debian",
        "osrelease": release,
        "osmajorrelease": int(major),
        "oscodename": codename,
        "osfinger": f"{os}-{release if os == 'Ubuntu' else major}",
        "osfullname": os,
        "osarch": "amd64",
    }


def _rpm(os: str, family: str, release: str, full_name: str) -> Dict[str, Any]:
    major = release.partition(".")[0]
    return {
        **_COMMON,
        "os": os,
        "os_family": family,
        "osrelease": release,
        "osmajorrelease": int(major),
        "osfinger": f"{full_name}-{release if family == 'Suse' else major}",
        "osfullname": full_name,
        "osarch": "x86_64",
    }


#: Name of a system -> its grains.
SYSTEMS: Mapping[str, Mapping[str, Any]] = {
    "debian-11": _debian("Debian", "11", "bullseye"),
    "debian-12": _debian("Debian", "12", "bookworm"),
    "debian-13": _debian("Debian", "13", "trixie"),
    "ubuntu-22.04": _debian("Ubuntu", "22.04", "jammy"),
    "ubuntu-24.04": _debian("Ubuntu", "24.04", "noble"),
    "fedora-41": _rpm("Fedora", "RedHat", "41", "Fedora Linux"),
    "rocky-9": _rpm("Rocky", "RedHat", "9.5", "Rocky Linux"),
    "opensuse-leap-15.6": _rpm("SUSE", "Suse", "15.6", "Leap"),
}
