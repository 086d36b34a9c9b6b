"""The gpg renderer: decrypts PGP messages in rendered data (`#!jinja|yaml|gpg`)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, List

from catena.core.context import Context
from catena.core.types import SourceLine
from catena.renderers.source import DataPath, Rendered, SourceError

PROGRAM = "gpg"
#: Below the folder of the configuration, where `gpg_keydir` names no other: the key ring,
#: readable by the service alone.
KEY_FOLDER = "gpgkeys"
SECONDS = 30
MESSAGE_LIMIT = 1000
_MESSAGE = re.compile(r"-----BEGIN PGP MESSAGE-----.*?-----END PGP MESSAGE-----", re.DOTALL)


def decrypt(context: Context, rendered: Rendered) -> Any:
    """Return the data with every PGP message replaced by its text.

    Raises:
        SourceError: a message can't be decrypted; names its line. It is never handed on as
            ciphertext, which a state would write into a file.
    """
    home = context.opts.get("gpg_keydir") or context.host.conf_dir / KEY_FOLDER
    return _Walk(Path(home), rendered).value(rendered.data, ())


class _Walk:
    """Goes through nested data."""

    def __init__(self, home: Path, rendered: Rendered) -> None:
        self._home = home
        self._rendered = rendered
        self._count = 0

    def value(self, value: Any, path: DataPath) -> Any:
        """Return *value*, which lies at *path*, decrypted."""
        if isinstance(value, dict):
            return {key: self.value(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, (*path, index)) for index, item in enumerate(value)]
        if isinstance(value, str) and _MESSAGE.search(value):
            return self._text(value, self._rendered.place(*path))
        return value

    def _text(self, text: str, place: SourceLine) -> str:
        whole = _MESSAGE.fullmatch(text.strip())
        if whole:
            return self._one(whole.group(), place)
        return _MESSAGE.sub(lambda found: self._one(found.group(), place), text)

    def _one(self, message: str, place: SourceLine) -> str:
        self._count += 1
        if self._count > MESSAGE_LIMIT:
            raise SourceError(f"more than {MESSAGE_LIMIT} PGP messages", place)
        command = [
            PROGRAM,
            "--homedir",
            str(self._home),
            "--batch",
            "--no-tty",
            "--status-fd",
            "2",
        ]
        try:
            ended = subprocess.run(
                [*command, "--decrypt"],
                # Written in one line, as on a command line, its line ends are spelled out.
                input=message.replace("\\n", "\n").encode("utf-8"),
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SourceError(f"gpg: {error}", place) from None
        if ended.returncode:
            raise SourceError(f"gpg can't decrypt this: {_reason(ended.stderr)}", place)
        try:
            return ended.stdout.decode("utf-8")
        except UnicodeDecodeError:
            raise SourceError("the decrypted message is not UTF-8", place) from None


def _reason(errors: bytes) -> str:
    lines: List[str] = errors.decode("utf-8", "replace").splitlines()
    told = [line for line in lines if line and not line.startswith("[GNUPG:]")]
    return (told or ["no reason given"])[-1][:200]
