"""selinux.*: what its programs print, and the mode with the kernel's files in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena import modules
from catena.core.context import Context
from catena.core.errors import UsageError
from catena.core.plugins import FunctionMark, Registry
from catena.modules.selinux import functions, parse, policy
from catena.modules.shared import programs
from catena.states import selinux
from tests.unit.states.conftest import MakeWorld

CONFIG = "# kept\nSELINUX=permissive\nSELINUXTYPE=default\n"


@pytest.fixture
def context(world: MakeWorld) -> Context:
    return world().context.with_(functions=Registry("function", modules.INDEX, FunctionMark))


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the configuration of a kernel that is permissive."""
    path = tmp_path / "config"
    path.write_text(CONFIG)
    (tmp_path / "enforce").write_text("0")
    monkeypatch.setattr(functions, "_CONFIG", path)
    monkeypatch.setattr(functions, "_KERNEL", (tmp_path,))
    return path


def test_mode_is_set_now_and_at_boot_once(config: Path, context: Context) -> None:
    tried = selinux.mode(context.with_(test=True), "enforcing")
    changes = {"old": "Permissive", "new": "Enforcing"}
    assert (tried.result, dict(tried.changes)) == (None, changes)
    assert config.read_text() == CONFIG
    found = selinux.mode(context, "enforcing")
    assert (found.result, dict(found.changes)) == (True, changes)
    assert found.comment == "SELinux has been set to Enforcing mode"
    assert config.read_text() == CONFIG.replace("permissive", "enforcing")
    assert (config.parent / "enforce").read_text() == "1"
    again = selinux.mode(context, "Enforcing")
    assert (dict(again.changes), again.comment) == ({}, "SELinux is already in Enforcing mode")


def test_disabling_takes_a_reboot_and_is_written_once(config: Path, context: Context) -> None:
    found = selinux.mode(context, "disabled")
    assert found.comment == "SELinux has been set to Disabled mode, which takes a reboot"
    assert "SELINUX=disabled\n" in config.read_text()
    again = selinux.mode(context, "disabled")
    assert (again.result, dict(again.changes)) == (True, {})


def test_host_without_selinux_says_which_file_is_missing(
    config: Path, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.unlink()
    monkeypatch.setattr(functions, "_KERNEL", ())
    found = selinux.mode(context, "enforcing")
    assert found.result is False
    assert "Could not read SELinux config file" in found.comment
    assert selinux.mode(context, "maybe").comment == "maybe is not an accepted mode"


def test_missing_program_names_its_package(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "PATH", "/nowhere")
    found = selinux.boolean(context, "x", value=True)
    assert found.comment.endswith("install the package policycoreutils-python-utils")


BOOLEANS = """\
SELinux boolean                State  Default Description

virt_use_usb                   (off  ,  on)  Allow virt to use usb
"""
RULES = """\
SELinux fcontext                       type               Context

/srv                                   directory          system_u:object_r:var_t:s0
/srv/[^/]+                             all files          <<None>>
/srv/x(/.*)?                           regular file       staff_u:object_r:a_t:s0:c1,c2

SELinux Distribution fcontext Equivalence

/run = /var/run
"""
PORTS = """\
SELinux Port Type              Proto    Port Number

http_port_t                    tcp      80, 81, 8000-8010
"""


def test_output_of_semanage_is_read() -> None:
    row = {"State": "off", "Default": "on", "Description": "Allow virt to use usb"}
    assert parse.booleans(BOOLEANS) == {"virt_use_usb": row}
    rules = parse.file_rules(RULES)
    assert [(one.filespec, one.filetype, one.sel_type, one.sel_level) for one in rules] == [
        ("/srv", "directory", "var_t", "s0"),
        ("/srv/[^/]+", "all files", "", ""),
        ("/srv/x(/.*)?", "regular file", "a_t", "s0:c1,c2"),
    ]
    assert parse.port_rules(PORTS) == [("http_port_t", "tcp", ["80", "81", "8000-8010"])]
    full = "100 zabbix          pp disabled\n400 own cil\n"
    assert parse.modules(full) == {
        "zabbix": {"Enabled": False, "Version": None},
        "own": {"Enabled": True, "Version": None},
    }


@pytest.mark.parametrize(
    "text",
    [
        "Would relabel /srv/x from u:r:a_t:s0 to u:r:b_t:s0",
        "Relabeled /srv/x from u:r:a_t:s0 to u:r:b_t:s0",
        "restorecon reset /srv/x context u:r:a_t:s0->u:r:b_t:s0",
    ],
)
def test_output_of_restorecon_is_read(text: str) -> None:
    found = {"old": {"sel_type": "a_t"}, "new": {"sel_type": "b_t"}}
    assert parse.relabelled(f"{text}\n") == {"/srv/x": found}


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("tcp/80",), ("tcp", "80")),
        (("x", "udp", "20-21"), ("udp", "20-21")),
        (("x", "tcp", 8), ("tcp", "8")),
    ],
)
def test_ports_are_read(arguments: tuple[Any, ...], found: tuple[str, str]) -> None:
    assert parse.port_of(*arguments) == found


@pytest.mark.parametrize("arguments", [("x",), ("tcp/0",), ("tcp/80000",), ("x", "tcp", "a")])
def test_wrong_ports_are_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(UsageError, match="Invalid name"):
        parse.port_of(*arguments)


def test_words_for_a_rule() -> None:
    words = policy.rule_words("add", "/srv(/.*)?", "f", "x_t", "staff_u", "s0")
    assert words == [
        *("semanage", "fcontext", "--add", "--ftype", "f", "--type", "x_t"),
        *("--seuser", "staff_u", "--range", "s0", "/srv(/.*)?"),
    ]
    assert policy.rule_words("delete", "/srv", "a", None, None, None)[2:] == ["--delete", "/srv"]
    for wrong in (("--all", "a", "x_t"), ("/srv", "q", "x_t"), ("/srv", "a", "-x")):
        with pytest.raises(UsageError):
            policy.rule_words("add", *wrong, None, None)


class Programs:
    """semodule, setsebool and semanage, which write down what they are told."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.modules = ["100 zabbix pp"]

    def need(self, context: Any, words: list[str], package: str, **options: Any) -> str:
        if words[1].startswith("--list-modules"):
            return "\n".join(self.modules)
        if words[-1] == "--list":
            return {"boolean": BOOLEANS, "port": PORTS, "fcontext": RULES}[words[1]]
        self.calls.append(words)
        if words[1] == "--install":
            self.modules.append(f"400 {Path(words[2]).stem} pp")
        if words[1] == "--remove":
            self.modules = [one for one in self.modules if words[2] not in one]
        return ""


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Programs:
    made = Programs()
    monkeypatch.setattr(programs, "need", made.need)
    return made


def test_module_is_installed_again_only_when_its_file_has_changed(
    fakes: Programs, context: Context, tmp_path: Path
) -> None:
    context.host.cache_dir.mkdir()
    path = tmp_path / "own.pp"
    path.write_text("1")
    assert selinux.module_install(context.with_(test=True), str(path)).result is None
    first = selinux.module_install(context, str(path))
    assert (first.result, dict(first.changes)) == (True, {"own": "installed"})
    again = selinux.module(context, "own", install=True, source=str(path))
    assert (again.result, dict(again.changes)) == (True, {})
    path.write_text("2")
    assert selinux.module_install(context, str(path)).changes == {"own": "installed"}
    assert fakes.calls == [["semodule", "--install", str(path)]] * 2
    missing = selinux.module_install(context, "/none.pp")
    assert missing.comment == "Failed to install module /none.pp: /none.pp does not exist"
    assert selinux.module_remove(context, "own").changes == {"own": "removed"}
    assert selinux.module_remove(context, "own").changes == {}


def test_programs_are_called_with_their_words(fakes: Programs, context: Context) -> None:
    assert selinux.module(context, "zabbix", "disabled").changes == {"zabbix": "disabled"}
    changes = selinux.boolean(context, "virt_use_usb", "yes", persist=True).changes
    assert changes == {"virt_use_usb": {"old": ("off", "on"), "new": ("on", "on")}}
    assert selinux.boolean(context, "virt_use_usb", value="on", booleans={"none": 1}).result is (
        False
    )
    # The port belongs to another type, so that its row is modified.
    selinux.port_policy_present(context, "tcp/81", "x_t", sel_range="s0")
    selinux.port_policy_present(context, "tcp/82", "x_t")
    selinux.port_policy_absent(context, "x", protocol="tcp", port="8000-8010")
    selinux.fcontext_policy_present(context, "/srv", "x_t", filetype="d")
    assert fakes.calls == [
        ["semodule", "--disable", "zabbix"],
        ["setsebool", "-P", "virt_use_usb=on"],
        [*("semanage", "port", "--modify", "--proto", "tcp", "--type", "x_t"),
         *("--range", "s0", "81")],
        ["semanage", "port", "--add", "--proto", "tcp", "--type", "x_t", "82"],
        ["semanage", "port", "--delete", "--proto", "tcp", "8000-8010"],
        ["semanage", "fcontext", "--modify", "--ftype", "d", "--type", "x_t", "/srv"],
    ]  # fmt: skip


def test_port_that_has_its_type_is_left(fakes: Programs, context: Context) -> None:
    found = selinux.port_policy_present(context, "tcp/80", "http_port_t")
    assert (found.result, dict(found.changes), fakes.calls) == (True, {}, [])
    gone = selinux.port_policy_absent(context, "tcp/9999")
    assert (gone.result, dict(gone.changes), fakes.calls) == (True, {}, [])
