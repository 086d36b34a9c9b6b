"""paramiko is imported late, without unused parts and without warnings."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version


def test_paramiko_comes_with_the_first_host_only_and_without_its_test_tools() -> None:
    code = (
        "import logging, sys\n"
        "import catena.cli.ssh, catena.ssh.connect.roster\n"
        "import catena.ssh.connect.connection, catena.ssh.push.job\n"
        "print('paramiko' in sys.modules)\n"
        "from catena.ssh.connect import library\n"
        "assert library.paramiko() is library.paramiko() is sys.modules['paramiko']\n"
        "print(sorted({'invoke', 'asyncio', 'unittest.mock'} & set(sys.modules)))\n"
        "logging.getLogger('paramiko.transport').error('loud')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["False", "[]"]
    assert done.stderr == ""


def test_paramiko_version_is_found_without_importlib_metadata() -> None:
    code = (
        "import sys\n"
        "from catena.ssh.connect.library import paramiko\n"
        "print(paramiko().__version__, 'importlib.metadata' in sys.modules)\n"
        "import dataclasses\n"
        "made = dataclasses.make_dataclass('Made', ['a'])\n"
        "print(made.__doc__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    first, second = done.stdout.splitlines()
    assert first == f"{version('paramiko')} False"
    assert second.startswith("Made(a:")
