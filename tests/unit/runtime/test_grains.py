from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from catena.runtime.grains import facts, net, release
from catena.runtime.grains.collect import GrainSources, collect

SYSTEMS: list[tuple[str, dict[str, Any]]] = [
    (
        'NAME="Debian GNU/Linux"\nVERSION_ID="12"\nVERSION="12 (bookworm)"\n'
        "VERSION_CODENAME=bookworm\nID=debian\n",
        {"os": "Debian", "os_family": "Debian", "oscodename": "bookworm", "osrelease": "12",
         "osfullname": "Debian GNU/Linux", "osmajorrelease": 12, "osfinger": "Debian-12",
         "osrelease_info": [12]},
    ),
    (
        'NAME="Ubuntu"\nVERSION="20.04.3 LTS (Focal Fossa)"\nID=ubuntu\nID_LIKE=debian\n'
        'VERSION_ID="20.04"\nVERSION_CODENAME=focal\n',
        {"os": "Ubuntu", "os_family": "Debian", "oscodename": "focal", "osfullname": "Ubuntu",
         "osrelease": "20.04", "osrelease_info": [20, 4], "osfinger": "Ubuntu-20.04"},
    ),
    (
        'NAME="Rocky Linux"\nVERSION="8.5 (Green Obsidian)"\nID="rocky"\n'
        'ID_LIKE="rhel centos fedora"\nVERSION_ID="8.5"\n',
        {"os": "Rocky", "os_family": "RedHat", "oscodename": "Green Obsidian",
         "osfullname": "Rocky Linux", "osmajorrelease": 8, "osfinger": "Rocky Linux-8"},
    ),
    (
        'NAME="CentOS Stream"\nVERSION="8"\nID="centos"\nVERSION_ID="8"\n'
        'PRETTY_NAME="CentOS Stream 8"\n',
        {"os": "CentOS Stream", "os_family": "RedHat", "oscodename": "CentOS Stream 8",
         "osfinger": "CentOS Stream-8"},
    ),
    (
        'NAME="openSUSE Leap"\nVERSION="15.5"\nID="opensuse-leap"\nID_LIKE="suse opensuse"\n'
        'VERSION_ID="15.5"\nPRETTY_NAME="openSUSE Leap 15.5"\n',
        {"os": "SUSE", "os_family": "Suse", "osfullname": "Leap", "osfinger": "Leap-15",
         "oscodename": "openSUSE Leap 15.5", "osrelease_info": [15, 5]},
    ),
    (
        'NAME="openSUSE"\nVERSION="Tumbleweed"\nVERSION_ID="20160504"\nID=opensuse\n'
        'PRETTY_NAME="openSUSE Tumbleweed (20160504) (x86_64)"\n',
        {"osfullname": "Tumbleweed", "osfinger": "Tumbleweed-20160504"},
    ),
    (
        'NAME="SLES"\nVERSION="15-SP4"\nVERSION_ID="15.4"\nID="sles"\n'
        'PRETTY_NAME="SUSE Linux Enterprise Server 15 SP4"\n',
        {"os": "SUSE", "os_family": "Suse", "osfullname": "SLES", "osfinger": "SLES-15"},
    ),
    (
        'NAME="Linux Mint"\nVERSION="20.3 (Una)"\nID=linuxmint\nID_LIKE=ubuntu\n'
        'VERSION_ID="20.3"\nVERSION_CODENAME=una\n',
        {"os": "Mint", "os_family": "Debian", "osfinger": "Linux Mint-20"},
    ),
    (
        'NAME="Strange GNU/Linux"\nID=strange\nID_LIKE="debian"\nVERSION_ID="1.0"\n',
        {"os": "Strange", "os_family": "Debian", "osfinger": "Strange GNU/Linux-1"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SYSTEMS)
def test_systems_are_named_as_salt_names_them(
    tmp_path: Path, text: str, expected: dict[str, Any]
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text(text)
    found = release.collect(tmp_path)
    assert {name: found[name] for name in expected} == expected


def test_full_centos_version_is_read_from_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text(
        'NAME="CentOS Linux"\nVERSION_ID="7"\nID="centos"\nPRETTY_NAME="CentOS Linux 7 (Core)"\n'
    )
    (tmp_path / "etc/centos-release").write_text("CentOS Linux release 7.9.2009 (Core)\n")
    found = release.collect(tmp_path)
    assert (found["osrelease"], found["osfinger"]) == ("7.9.2009", "CentOS Linux-7")
    assert found["oscodename"] == "CentOS Linux 7 (Core)"


def test_empty_root_still_gives_grains(tmp_path: Path) -> None:
    found = {**release.collect(tmp_path), **facts.collect(tmp_path), **net.collect(tmp_path)}
    assert found["os"] == "Linux"
    assert found["virtual"] == "physical"
    assert found["init"] == "unknown"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"sys/class/dmi/id/sys_vendor": "QEMU\n"}, "kvm"),
        ({"sys/class/dmi/id/product_name": "VirtualBox\n"}, "VirtualBox"),
        ({"sys/class/dmi/id/sys_vendor": "VMware, Inc.\n"}, "VMware"),
        ({"run/systemd/container": "systemd-nspawn\n"}, "container"),
        ({".dockerenv": ""}, "container"),
        ({"proc/cpuinfo": "flags\t\t: fpu hypervisor\n"}, "kvm"),
    ],
)
def test_virtualization_is_detected_from_files(
    tmp_path: Path, files: dict[str, str], expected: str
) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert facts.collect(tmp_path)["virtual"] == expected


def test_memory_is_given_in_whole_mebibytes(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(
        "MemTotal:       16277028 kB\n\nSwapTotal:       4789244 kB\n"
    )
    found = facts.collect(tmp_path)
    assert (found["mem_total"], found["swap_total"]) == (15895, 4676)


@pytest.mark.parametrize(
    ("local", "hosts", "expected"),
    [
        ("web1.example.org", "", "web1.example.org"),
        ("web1", "127.0.1.1 web1.example.org web1\n", "web1.example.org"),
        ("web1", "127.0.1.1 web1 # web1.example.org\n", "web1"),
        ("web1", "", "web1"),
    ],
)
def test_full_name_comes_from_files(local: str, hosts: str, expected: str) -> None:
    assert net.full_name(local, hosts) == expected


def test_addresses_of_this_host_are_found() -> None:
    found = net.collect(Path("/"))
    assert "127.0.0.1" in found["ipv4"]
    assert found["ip4_interfaces"]["lo"] == ["127.0.0.1"]
    assert "lo" in found["hwaddr_interfaces"]


def test_config_wins_over_the_static_file_and_that_over_custom_grains(tmp_path: Path) -> None:
    custom = tmp_path / "grains"
    custom.mkdir()
    (custom / "orcg.py").write_text(
        "def main():\n    return {'a': 'custom', 'b': 'custom', 'c': 'custom', 'os': 'mine'}\n"
        "def second(grains=None):\n    return {'sees': bool(grains.get('kernel'))}\n"
        "def _hidden():\n    return {'hidden': 1}\n"
    )
    (custom / "broken.py").write_text("raise RuntimeError('no')\n")
    static = tmp_path / "static"
    static.write_text("b: file\nc: file\n")
    found = collect(GrainSources("web1", "m1", static, {"c": "config"}, custom))
    assert (found["a"], found["b"], found["c"]) == ("custom", "file", "config")
    assert (found["os"], found["sees"], "hidden" in found) == ("mine", True, False)
    assert (found["id"], found["machine_id"]) == ("web1", "m1")


def test_broken_static_grains_file_does_not_stop_the_agent(tmp_path: Path) -> None:
    static = tmp_path / "grains"
    static.write_text("a: [\n")
    assert collect(GrainSources("web1", "m1", static))["id"] == "web1"


def test_collecting_is_fast(tmp_path: Path) -> None:
    sources = GrainSources("web1", "m1", tmp_path / "none")
    collect(sources)
    spent = time.process_time()
    for _ in range(5):
        collect(sources)
    assert (time.process_time() - spent) / 5 < 0.1
