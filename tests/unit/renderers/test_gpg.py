from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from catena.core.types import SourceLine
from catena.renderers import gpg
from catena.renderers.pipeline import render
from catena.renderers.source import Source, SourceError

#: Stands in for gpg: "decrypts" to upper case, fails for a message that says so.
FAKE = """#!/bin/sh
text=$(cat)
case "$text" in
    *bad*) echo "gpg: decryption failed: No secret key" >&2; exit 2 ;;
esac
printf '%s' "$text" | sed -n 's/^body: //p' | tr a-z A-Z | tr -d '\\n'
"""


def message(text: str, indent: str = "    ") -> str:
    lines = ["-----BEGIN PGP MESSAGE-----", "", f"body: {text}", "-----END PGP MESSAGE-----"]
    return "\n".join(indent + line for line in lines)


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "gpg"
    file.write_text(FAKE)
    file.chmod(0o700)
    monkeypatch.setattr(gpg, "PROGRAM", str(file))


def decrypted(context: Any, text: str) -> Any:
    return render(context, Source("#!yaml|gpg\n" + text, "pillar://p.sls")).data


def test_messages_anywhere_in_the_data_are_decrypted(make_context: Any) -> None:
    text = f"plain: x\npassword: |\n{message('hunter')}\nlist:\n  - |\n{message('two')}\n"
    assert decrypted(make_context(), text) == {"plain": "x", "password": "HUNTER", "list": ["TWO"]}


def test_message_inside_a_text_leaves_the_rest(make_context: Any) -> None:
    text = f"url: |\n    user={message('me', '').replace(chr(10), chr(10) + '    ')}@host\n"
    assert decrypted(make_context(), text) == {"url": "user=ME@host\n"}


def test_message_that_cannot_be_decrypted_is_an_error_with_its_line(make_context: Any) -> None:
    with pytest.raises(SourceError, match="No secret key") as caught:
        decrypted(make_context(), f"a: 1\npassword: |\n{message('bad')}\n")
    assert caught.value.place == SourceLine("pillar://p.sls", 3)


def test_missing_program_is_an_error(
    make_context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpg, "PROGRAM", str(tmp_path / "none"))
    with pytest.raises(SourceError, match="gpg: "):
        decrypted(make_context(), f"password: |\n{message('x')}\n")


def test_message_in_one_line_has_its_line_ends_spelled_out(make_context: Any) -> None:
    text = message("one", "").replace("\n", "\\n")
    assert decrypted(make_context(), f"password: '{text}'\n") == {"password": "ONE"}


def test_configuration_names_the_key_ring(
    make_context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "shows"
    file.write_text('#!/bin/sh\ncat >/dev/null; printf %s "$2"\n')
    file.chmod(0o700)
    monkeypatch.setattr(gpg, "PROGRAM", str(file))
    found = decrypted(make_context(opts={"gpg_keydir": "/ring"}), f"a: |\n{message('x')}\n")
    assert found == {"a": "/ring"}
