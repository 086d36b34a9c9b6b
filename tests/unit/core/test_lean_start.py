"""What short commands leave for later: loggers, regular expressions, modules of libraries."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import textwrap

import pytest

from catena.core.import_stubs import StandIn, standing_in
from catena.core.logs import logger
from catena.core.patterns import lazy_pattern

#: A module of the standard library that nothing else here needs.
UNUSED = "stringprep"


def _said(text: str) -> list[str]:
    code = textwrap.dedent(text)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return (done.stdout + done.stderr).split()


def test_logging_is_loaded_by_the_first_warning_and_by_nothing_less() -> None:
    said = _said("""
        import sys
        sys.modules.pop("logging", None)  # an editable installation may have it
        from catena.core.logs import logger
        log = logger("catena.test")
        log.debug("quiet"); log.info("quiet")
        print("logging" in sys.modules, flush=True)
        log.warning("loud")
    """)
    assert said == ["False", "loud"]


def test_it_says_what_the_logger_of_that_name_says(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "catena.test"):
        logger("catena.test").debug("%s", "seen")
    assert [(one.name, one.message, one.funcName) for one in caplog.records] == [
        ("catena.test", "seen", "test_it_says_what_the_logger_of_that_name_says")
    ]


def test_a_pattern_does_what_a_compiled_one_does() -> None:
    words = lazy_pattern("a+", re.IGNORECASE)
    for _ in range(2):
        assert words.findall("xAay") == ["Aa"]
        assert words.sub("b", "xAay") == "xby"
    with pytest.raises(re.error):
        lazy_pattern("(").match("")
    assert lazy_pattern(b"a").match(b"a")


def test_a_module_is_loaded_when_something_of_it_is_asked_for() -> None:
    sys.modules.pop(UNUSED, None)
    with standing_in(StandIn(UNUSED, given="here")):
        module = __import__(UNUSED)
        assert module.given == "here"
    assert UNUSED not in sys.modules
    assert module.in_table_a1("a") is False
    assert isinstance(sys.modules[UNUSED], type(sys)) and sys.modules[UNUSED] is not module


def test_it_is_loaded_at_once_for_who_takes_names_from_it() -> None:
    sys.modules.pop(UNUSED, None)
    with standing_in(StandIn(UNUSED)):
        namespace: dict[str, object] = {}
        exec(f"from {UNUSED} import in_table_a1", namespace)
        assert sys.modules[UNUSED].in_table_a1 is namespace["in_table_a1"]
    assert UNUSED in sys.modules


def test_a_module_that_is_there_is_left_in_its_place() -> None:
    with standing_in(StandIn("re")):
        assert sys.modules["re"] is re
