"""The pyobjects renderer; what it declares was compared with Salt 3008.5."""

from __future__ import annotations

from typing import Any

import pytest

from catena.core.plugins import FunctionMark, Plugin, Registry, StateMark
from catena.renderers.pipeline import render
from catena.renderers.source import Rendered, Source, SourceError

KNOWN = {"test": ("nop", "fail"), "ssh_auth": ("present",), "service": ("running",)}


def states(prefix: str) -> dict[str, Plugin] | None:
    names = KNOWN.get(prefix, ())
    return {f"{prefix}.{name}": Plugin(f"{prefix}.{name}", print, StateMark()) for name in names}


def gets(prefix: str) -> dict[str, Plugin] | None:
    def get(context: Any, key: str, default: Any = "") -> Any:
        found = context.pillar if prefix == "pillar" else context.grains
        for part in key.split(":"):
            found = found.get(part, {})
        return found or default

    return {f"{prefix}.get": Plugin(f"{prefix}.get", get, FunctionMark())}


@pytest.fixture
def declare(make_context: Any) -> Any:
    def run(text: str, files: dict[str, str] | None = None) -> Rendered:
        context = make_context(
            files,
            states=Registry("state", dict.fromkeys(KNOWN, ""), StateMark, states),
            functions=Registry("function", {}, FunctionMark, gets),
            grains={"os": "Ubuntu", "os_family": "Debian"},
            pillar={"samba": {"lookup": {"server": "smbx"}}},
        )
        source = Source(f"#!pyobjects\n{text}", "salt://t.sls", sls="t", path="t.sls")
        return render(context, source)

    return run


def test_with_statements_add_requisites_of_all_enclosing_states(declare: Any) -> None:
    made = declare(
        "with Test.nop('a'):\n    with Test('b', 'watch_in'):\n"
        "        Test.nop('c', require=Test('q'), x=1)\n"
    )
    body = [{"require": [{"test": "q"}, {"test": "a"}]}, {"x": 1}, {"watch_in": [{"test": "b"}]}]
    assert made.data == {"a": {"test.nop": []}, "c": {"test.nop": body}}


def test_include_and_extend(declare: Any) -> None:
    made = declare(
        "include('x', 'y')\ninclude('z')\nService.running(extend('a'), watch=[Test('b')])"
    )
    assert made.data == {
        "include": ["x", "y", "z"],
        "extend": {"a": {"service.running": [{"watch": [{"test": "b"}]}]}},
    }


def test_declared_states_know_their_lines(declare: Any) -> None:
    made = declare("\nTest.nop('a')\n\ndef more():\n    Test.nop('b')\nmore()\n")
    assert [made.place("a").line, made.place("b", "test.nop").line] == [3, 6]


def test_class_names_are_those_of_state_modules(declare: Any) -> None:
    made = declare("SshAuth.present('k', user='u')")
    assert made.data == {"k": {"ssh_auth.present": [{"user": "u"}]}}


def test_getters_and_salt_read_pillar_and_grains(declare: Any) -> None:
    text = "Test.nop(grains('os') + pillar('no', 'd') + salt.grains.get('os') + __sls__)"
    assert list(declare(text).data) == ["UbuntudUbuntut"]


@pytest.mark.parametrize(
    ("priority", "service"),
    [("", "samba"), ("priority = ('os_family', 'os')", "smbd")],
)
def test_map_takes_attributes_by_grain(declare: Any, priority: str, service: str) -> None:
    made = declare(
        f"class Samba(Map):\n    merge = 'samba:lookup'\n    {priority or 'pass'}\n"
        "    class Ubuntu:\n        __grain__ = 'os'\n        service = 'smbd'\n"
        "    class Deb:\n        __match__ = 'Debian'\n"
        "        service = 'samba'\n        server = 's'\n"
        "    class RHEL:\n        __match__ = 'RedHat'\n        service = 'smb'\n"
        "Test.nop(Samba.service + Samba.server)\n"
    )
    assert list(made.data) == [service + "smbx"]


@pytest.mark.parametrize(
    ("line", "used"),
    [
        ("from salt://lib/a.sls import A", "A"),
        ("from salt://lib/a.sls import A as B, C", "B + C"),
        ("import salt://lib/a.sls", "A + C"),
    ],
)
def test_names_are_imported_from_files_of_the_tree(declare: Any, line: str, used: str) -> None:
    files = {"lib/a.sls": "#!pyobjects\nA = 'a'\nC = 'c'\nTest.nop('theirs')\n"}
    made = declare(f"{line}\nTest.nop('mine' + {used})", files)
    assert "theirs" in made.data
    assert len(made.data) == 2


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ("Test.nop('a')\nTest.nop('a')", "declares test.nop of 'a' twice", 3),
        ("\nTest.no('a')", "test.no", 3),
        ("Tets.nop('a')", "did you mean 'Test'", 2),
        ("Test.nop('a', 'b')", "positional", 2),
        ("Test('a', 'wacth')", "'wacth' is no requisite; did you mean 'watch'", 2),
        ("x = (", "Python: ", 2),
        ("from salt://none.sls import A", "no file salt://none.sls", 2),
        ("from salt://lib.sls import Servic", "did you mean 'Service'", 2),
        ("raise SystemExit(3)", "Python: ", 2),
    ],
)
def test_fault_names_its_line(declare: Any, text: str, words: str, line: int) -> None:
    declare("Test.nop('known')")
    with pytest.raises(SourceError, match=r"salt://t\.sls") as caught:
        declare(text, {"lib.sls": "#!pyobjects\nService = 1\n"})
    assert words in str(caught.value)
    assert caught.value.place.line == line


def test_fault_of_an_imported_file_names_both_files(declare: Any) -> None:
    with pytest.raises(SourceError) as caught:
        declare("\nfrom salt://lib.sls import A", {"lib.sls": "#!pyobjects\n\nA = 1 / 0\n"})
    assert "salt://lib.sls:3" in str(caught.value)
    assert "reached from salt://t.sls:3" in str(caught.value)
