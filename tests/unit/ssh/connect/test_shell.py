"""Words of a command arrive unchanged through any login shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.core.errors import LimitError
from catena.core.ids import minion_id
from catena.ssh.connect.shell import begin_mark, for_login_shell, wrapped
from catena.ssh.connect.target import SshTarget

TARGET = SshTarget(minion_id("web1"), "web1")
WORDS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)
SHOW = "import os, sys; os.write(1, b'\\0'.join(os.fsencode(a) for a in sys.argv[1:]))"


def obeyed(text: str) -> bytes:
    """Return stdout of what sshd does with *text*, behind the begin mark."""
    env = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "LANG": "C.UTF-8",
        "HOME": "/proc/none",
    }
    done = subprocess.run(["/bin/sh", "-c", text], capture_output=True, env=env, timeout=100)
    return done.stdout.partition(b"\n")[2]


@settings(max_examples=25)
@given(st.lists(WORDS, min_size=1, max_size=5))
def test_every_argument_arrives_unchanged(words: list[str]) -> None:
    text = for_login_shell(
        wrapped([sys.executable, "-I", "-S", "-c", SHOW, *words], TARGET, "ab", sudo=False)
    )
    assert obeyed(text) == b"\0".join(word.encode() for word in words)


NASTY = [
    "$(touch X)",
    "`touch X`",
    "a;b",
    "a\nb",
    "-x",
    "%n%s\\n",
    "'\"\\",
    "!!",
    "*",
    "~",
    "é",
    "#",
]


def test_arguments_are_not_expanded_by_the_shell() -> None:
    text = for_login_shell(wrapped([sys.executable, "-c", SHOW, *NASTY], TARGET, "ab", sudo=False))
    assert obeyed(text) == "\0".join(NASTY).encode()


def test_login_shell_sees_no_sign_that_shells_read_differently() -> None:
    text = for_login_shell(wrapped(["echo", *NASTY], TARGET, "ab", sudo=False))
    inner = text.removeprefix('/bin/sh -c \'eval "$(printf %b "').removesuffix('")"\'')
    assert re.fullmatch(r"(?:[A-Za-z0-9_./:=,@+ -]|\\0[0-7]{3})*", inner)


def test_umask_and_search_path_apply_behind_sudo() -> None:
    target = SshTarget(
        minion_id("a"), "a", sudo=True, sudo_user="app", umask=0o027, search_path="$PATH:/opt/bin"
    )
    text = wrapped(["id"], target, "cd", sudo=True)
    assert text.startswith("exec sudo -n -H -u app -- /bin/sh -c ")
    assert 'umask 0027; PATH="$PATH:/opt/bin"; export PATH; exec id' in text
    assert "sudo" not in wrapped(["id"], target, "cd", sudo=False)


def test_password_is_never_part_of_a_command() -> None:
    target = SshTarget(minion_id("a"), "a", sudo=True, password="hunter2")
    text = wrapped(["id"], target, "cd", sudo=True)
    assert "hunter2" not in text
    assert "sudo -S -p catena-password-cd: -H" in text
    assert begin_mark("cd") in text


@pytest.mark.parametrize("argv", [[], ["a\0b"]])
def test_invalid_command_is_refused(argv: list[str]) -> None:
    with pytest.raises(ValueError, match="command"):
        wrapped(argv, TARGET, "ab", sudo=False)


def test_command_beyond_the_limit_is_refused() -> None:
    with pytest.raises(LimitError):
        for_login_shell("x" * 200_000)
