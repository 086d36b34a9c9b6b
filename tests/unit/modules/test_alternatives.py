"""Command lines and answers of the alternatives tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena.core.errors import CommandExecutionError, UsageError
from catena.modules import alternatives

SHOWN = """editor - auto mode
  link currently points to /usr/bin/vim.basic
/bin/nano - priority 40
  slave editor.1.gz: /usr/share/man/man1/nano.1.gz
/usr/bin/vim.basic - priority 30
"""


class Host:
    """Stands for a context whose commands answer what a test says."""

    def __init__(self, family: str = "Debian", **answer: Any) -> None:
        self.grains = {"os_family": family}
        self.answer = {"retcode": 0, "stdout": "", "stderr": "", **answer}
        self.calls: list[Any] = []

    def call(self, name: str, words: Any, **options: Any) -> Any:
        assert (name, options["python_shell"]) == ("cmd.run_all", False)
        self.calls.append(words)
        return self.answer


def ask(host: Host, fun: str, *args: Any) -> Any:
    return getattr(alternatives, fun)(host, *args)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            ("install", "e", "/usr/bin/e", "/opt/e", 5),
            ["--install", "/usr/bin/e", "e", "/opt/e", "5"],
        ),
        (("remove", "e", "/opt/e"), ["--remove", "e", "/opt/e"]),
        (("auto", "e"), ["--auto", "e"]),
        (("set_", "e", "/opt/e"), ["--set", "e", "/opt/e"]),
        (("display", "e"), ["--display", "e"]),
    ],
)
def test_tool_of_the_system_is_called(call: Any, words: Any) -> None:
    debian, redhat = Host(stdout="said"), Host("RedHat", stdout="said")
    assert ask(debian, *call) == ask(redhat, *call) == "said"
    assert debian.calls == [["update-alternatives", *words]]
    assert redhat.calls == [["alternatives", *words]]


def test_failure_contains_the_tools_message() -> None:
    with pytest.raises(CommandExecutionError, match="no such"):
        ask(Host(retcode=2, stderr="no such\n"), "auto", "e")


@pytest.mark.parametrize(
    "call",
    [("auto", "--all"), ("auto", ".."), ("auto", "a/b"), ("remove", "e", "--x"), ("display", "")],
)
def test_names_that_are_options_or_paths_are_refused(call: Any) -> None:
    host = Host()
    with pytest.raises(UsageError):
        ask(host, *call)
    assert host.calls == []


def test_choices_are_distinguished_from_their_slaves() -> None:
    host = Host(stdout=SHOWN)
    assert ask(host, "check_exists", "editor", "/bin/nano") is True
    assert ask(host, "check_exists", "editor", "/bin/nan") is False
    assert ask(host, "check_exists", "editor", "/usr/share/man/man1/nano.1.gz") is False
    assert ask(Host(retcode=2, stdout=SHOWN), "check_exists", "editor", "/bin/nano") is False


def test_current_choice_is_where_the_link_points(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(alternatives, "FOLDER", tmp_path)
    (tmp_path / "editor").symlink_to("/bin/nano")
    host = Host()
    assert ask(host, "show_current", "editor") == "/bin/nano"
    assert ask(host, "show_current", "pager") is False
    assert ask(host, "check_installed", "editor", "/bin/nano") is True
    assert ask(host, "check_installed", "pager", "/bin/nano") is False


def test_link_of_a_name_is_in_its_record(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(alternatives, "_RECORDS", {"Suse": str(tmp_path)})
    (tmp_path / "editor").write_text("auto\n/usr/bin/editor\n\n/bin/nano\n")
    assert ask(Host("Suse"), "show_link", "editor") == "/usr/bin/editor"
    with pytest.raises(CommandExecutionError, match="pager has no alternatives"):
        ask(Host("Suse"), "show_link", "pager")
