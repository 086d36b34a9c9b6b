"""What short commands leave for later: loggers, regular expressions, modules of libraries."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from catena.core.import_stubs import StandIn, standing_in
from catena.core.logs import logger
from catena.core.patterns import lazy_pattern
from catena.minion.link import damages
from catena.runtime import damage

#: A module of the standard library that nothing else here needs.
UNUSED = "stringprep"


def _printed(text: str, *arguments: Path) -> list[str]:
    code = textwrap.dedent(text)
    words = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    return (done.stdout + done.stderr).split()


def test_logging_is_imported_by_the_first_warning_only() -> None:
    said = _printed("""
        import sys
        sys.modules.pop("logging", None)  # an editable installation may have it
        from catena.core.logs import logger
        log = logger("catena.test")
        log.debug("quiet"); log.info("quiet")
        print("logging" in sys.modules, flush=True)
        log.warning("loud")
    """)
    assert said == ["False", "loud"]


def test_lazy_logger_logs_like_the_logger_of_that_name(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "catena.test"):
        logger("catena.test").debug("%s", "seen")
    assert [(one.name, one.message, one.funcName) for one in caplog.records] == [
        ("catena.test", "seen", "test_lazy_logger_logs_like_the_logger_of_that_name")
    ]


def test_lazy_pattern_behaves_like_a_compiled_one() -> None:
    words = lazy_pattern("a+", re.IGNORECASE)
    for _ in range(2):
        assert words.findall("xAay") == ["Aa"]
        assert words.sub("b", "xAay") == "xby"
    with pytest.raises(re.error):
        lazy_pattern("(").match("")
    assert lazy_pattern(b"a").match(b"a")


def test_stand_in_module_is_imported_at_its_first_attribute_access() -> None:
    sys.modules.pop(UNUSED, None)
    with standing_in(StandIn(UNUSED, given="here")):
        module = __import__(UNUSED)
        assert module.given == "here"
    assert UNUSED not in sys.modules
    assert module.in_table_a1("a") is False
    assert isinstance(sys.modules[UNUSED], type(sys)) and sys.modules[UNUSED] is not module


def test_stand_in_module_is_imported_by_a_from_import() -> None:
    sys.modules.pop(UNUSED, None)
    with standing_in(StandIn(UNUSED)):
        namespace: dict[str, object] = {}
        exec(f"from {UNUSED} import in_table_a1", namespace)
        assert sys.modules[UNUSED].in_table_a1 is namespace["in_table_a1"]
    assert UNUSED in sys.modules


def test_imported_module_is_not_replaced_by_a_stand_in() -> None:
    with standing_in(StandIn("re")):
        assert sys.modules["re"] is re


#: What an agent has no use for before its first job, its first damaged file or its first output.
NOT_IDLE = {
    "catena.core.dry_run",
    "catena.core.fsm",
    "catena.core.redact",
    "catena.core.run_ref",
    "catena.minion.jobs.decide",
    "catena.minion.jobs.lifecycle",
    "catena.minion.jobs.open_jobs",
    "catena.minion.jobs.outcomes",
    "catena.minion.jobs.record",
    "catena.minion.jobs.starter",
    "catena.minion.jobs.supervisor",
    "catena.minion.link.output",
    "catena.runtime.chain_store",
    "catena.runtime.custom_code",
    "catena.runtime.damage",
    "catena.runtime.output_tap",
    "asyncio",
    "contextvars",
    "logging",
    "pickle",
    "platform",
    "random",
    "yaml",
}
#: An agent with a connection, as the daemon has it, whose master answers nothing but the Hello.
IDLE_AGENT = """
    import os, sys
    from pathlib import Path
    import catena.minion.daemon
    from catena.core import frozen
    from catena.core.clock import SystemClock
    from catena.core.config.minion import MinionSettings
    from catena.core.job import JobSpec
    from catena.minion.agent import Agent, Ports
    from catena.minion.jobs.follow_up import Commands
    from catena.minion.log import Log
    from catena.minion.start.blob import StartData
    from catena.transport.messages import Welcome

    class NoProcesses:
        def __getattr__(self, name):
            return lambda *_: None

    def no_link(now):
        raise OSError("nobody is there")

    folder = Path(sys.argv[1])
    (folder / "boot").write_text("boot")
    settings = frozen.replace(
        MinionSettings(), cache_dir=str(folder / "cache"), pki_dir=str(folder / "pki"),
        boot_id_file=str(folder / "boot"),
    )
    clock = SystemClock()
    log = Log.open(os.devnull, "error", clock)
    ports = Ports(no_link, lambda *_: NoProcesses(), Commands(), lambda: None)
    agent = Agent(StartData(settings, "web1", "m" * 32, str(folder)), clock, log, ports)
    agent.recover()
    agent.on_welcome(Welcome("1", 15), 0.0)
    agent.service(clock.monotonic())
    agent.next_due(clock.monotonic())
"""


def test_idle_agent_does_not_import_modules_for_jobs_damage_or_output(tmp_path: Path) -> None:
    loaded = _printed(IDLE_AGENT + "    print(*sys.modules)\n", tmp_path)
    assert NOT_IDLE.intersection(loaded) == set()


def test_agent_imports_the_job_modules_with_its_first_order(tmp_path: Path) -> None:
    order = """
    agent.runner.order(JobSpec("20260101000000000001", "cmd.run", ("true",)))
    print(*sys.modules)
    """
    loaded = _printed(IDLE_AGENT + order, tmp_path)
    assert "catena.minion.jobs.open_jobs" in loaded


def test_folder_of_damaged_files_has_the_same_name_in_both_modules() -> None:
    assert damages.FOLDER == damage.FOLDER


def test_zmq_imports_its_omitted_modules_when_they_are_used() -> None:
    said = _printed("""
        import sys
        from catena.transport.zeromq import zmq
        socket = zmq.Context().socket(zmq.PAIR)
        print("random" in sys.modules, "pickle" in sys.modules)
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        other = zmq.Context.instance().socket(zmq.PAIR)
        other.connect(f"tcp://127.0.0.1:{port}")
        socket.send_pyobj({"a": 1})
        print(other.recv_pyobj() == {"a": 1})
    """)
    assert said == ["False", "False", "True"]
