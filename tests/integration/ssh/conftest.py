"""One sshd for all tests of a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ssh_server import SshServer

NOISY = """#!/bin/sh
echo "Welcome!"; echo "be careful" >&2
printf 'no line end'
exec /bin/sh -c "$1"
"""
#: A shell that shows what it runs, as with set -x.
TRACED = """#!/bin/sh
printf '+ %s\\n' "$1" "$1"; printf '+ %s\\n' "$1" >&2
exec /bin/sh -c "$1"
"""
#: A shell that reads single quotes as fish does: a backslash is special before itself and a quote.
ODD = rf"""#!{sys.executable}
import os, re, sys
words = re.findall(r"'((?:[^'\\]|\\.)*)'|(\S+)", sys.argv[1])
argv = [re.sub(r"\\(['\\])", r"\1", quoted) or plain for quoted, plain in words]
os.execv(argv[0], argv)
"""
NOLOGIN = "#!/bin/sh\necho 'This account is currently not available.'\nexit 1\n"
GOING_DOWN = "#!/bin/sh\necho 'System is going down. Not permitted to log in' >&2\nexit 254\n"
#: As sudo with -S: asks on stderr, three times; with -n it never asks.
SUDO = """#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
        -S) ask=1 ;; -n) ask=0 ;; -p) prompt=$2; shift ;; -u) user=$2; shift ;; -H) ;;
        --) shift; break ;;
    esac
    shift
done
if [ "$user" = free ]; then exec "$@"; fi
if [ "$user" = nobody2 ]; then echo "sudo: unknown user nobody2" >&2; exit 1; fi
if [ "$ask" = 0 ]; then echo "sudo: a password is required" >&2; exit 1; fi
for try in 1 2 3; do
    printf '%s' "$prompt" >&2
    IFS= read -r word
    if [ "$word" = 'se cret$1' ]; then AS=$user exec "$@"; fi
    echo "Sorry, try again." >&2
done
exit 1
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    tools: Path = tmp_path_factory.mktemp("bin")
    (tools / "sudo").write_text(SUDO)
    (tools / "sudo").chmod(0o755)
    shells = {
        "noisy": NOISY,
        "traced": TRACED,
        "odd": ODD,
        "nologin": NOLOGIN,
        "down": GOING_DOWN,
        # Whatever the user's own shell does to PATH, this sudo is found first.
        "sudo": f'#!/bin/sh\nPATH="{tools}:$PATH"; export PATH\nexec /bin/sh -c "$1"\n',
    }
    options = [f"Banner {tools / 'banner'}"]
    (tools / "banner").write_text("Authorised use only\n" * 20)
    with SshServer(shells, options=options) as found:
        yield found
