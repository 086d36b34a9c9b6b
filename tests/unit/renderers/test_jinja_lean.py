"""Jinja without its rarely used modules has all features."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket

from catena.renderers.jinja_lean import Bytecode


def test_lazily_imported_modules_are_imported_on_use() -> None:
    code = (
        "import sys\n"
        "import catena.renderers.jinja as own\n"
        "print('hashlib' in sys.modules, 'inspect' in sys.modules)\n"
        "from catena.renderers.filters import FILTERS\n"
        "made = own.jinja2.Environment().from_string('{{ x | attr(\"real\") | pprint }}')\n"
        "print(made.render(x=3), FILTERS['md5']('a'), len(FILTERS['uuid']('a')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    loaded, made = done.stdout.splitlines()
    assert loaded == "False False"
    assert made == "3 0cc175b9c0f1b6a831c399e269772661 36"


def test_kept_template_is_found_again_and_a_changed_one_is_not(tmp_path: Path) -> None:
    environment = jinja2.Environment()
    cache = Bytecode(str(tmp_path))
    bucket: Bucket = cache.get_bucket(environment, "name\udcff", None, "a")
    assert bucket.code is None
    bucket.code = compile("1", "name", "eval")
    cache.set_bucket(bucket)
    assert cache.get_bucket(environment, "name\udcff", None, "a").code == bucket.code
    assert cache.get_bucket(environment, "name\udcff", None, "b").code is None
    assert cache.get_bucket(environment, "name\udcff", "file", "a").code is None
