"""Options that every command takes, as Salt's users type them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catena.cli import chain, job
from catena.cli.commands import run
from catena.client.replies.chains import ChainPreview
from catena.client.replies.jobs import JobDetail, JobOutcome
from catena.client.requests import chains, jobs
from catena.client.requests.contract import AnyAsk
from catena.core.job import JobReturn

NOP = {"result": True, "changes": {}, "comment": "", "name": "a", "__id__": "a"}
STATES = {"test_|-a_|-a_|-nop": NOP}


@pytest.fixture(autouse=True)
def log() -> Iterator[None]:
    """Put the log's handlers back as they were."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    states = tmp_path / "states"
    states.mkdir()
    (states / "a.sls").write_text("a:\n  test.nop\nb:\n  test.succeed_with_changes\n")
    (tmp_path / "minion").write_text(f"file_roots: {{base: [{states}]}}\nid: web1\n")
    return str(tmp_path)


class Answering:
    """Stands in for a connection to a master whose only job applied one state."""

    def __init__(self, _: Any) -> None:
        self._ret = JobReturn("1", "state.apply", (), True, 0, STATES, 1.0, 0.1, out="highstate")

    def ask(self, ask: AnyAsk, _: Any) -> Any:
        if ask is chains.PREVIEW:
            return ChainPreview("1", ("m1",))
        assert ask is jobs.SHOW
        outcome = JobOutcome("done", ret=self._ret)
        return JobDetail(
            "1", "state.apply", (), {}, "m1", "glob", "root", {}, 1.0, 2.0, 3.0, {"m1": outcome}
        )

    def stream(self, ask: AnyAsk, *_: object) -> Iterator[Any]:
        assert ask is jobs.WATCH
        yield {"type": "new", "jid": "1", "minions": ["m1"], "missing": []}
        yield {"type": "return", "minion": "m1", "ret": vars(self._ret)}


@pytest.mark.parametrize("before", [True, False])
def test_log_level_is_accepted_before_and_after_the_command(
    folder: str, before: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["call", "--local", "state.apply", "a"]
    level = ["-l", "debug"]
    assert run(["-c", folder, *level, *words] if before else ["-c", folder, *words, *level]) == 0
    shown = capsys.readouterr()
    assert "rendering salt://a.sls by jinja|yaml" in shown.err
    assert shown.err.count("running state test_|-a_|-a_|-nop") == 1
    assert "running state" not in shown.out


def test_unknown_log_level_is_refused_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["call", "--local", "test.ping", "-l", "loud"]) == 2
    assert "'debug'" in capsys.readouterr().err


def test_option_letters_of_the_function_are_not_taken_for_a_log_level(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["call", "--local", "cmd.run", "ls", "-la"]) == 2
    assert "come after --" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["--force-color", "--force-colour"])
def test_colours_can_be_forced_and_disabled(
    folder: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["-c", folder, "call", "--local", "test.ping", word]) == 0
    assert "\x1b[" in capsys.readouterr().out
    assert run(["-c", folder, "call", "--local", "test.ping", "--no-color"]) == 0
    assert "\x1b[" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("config", "options", "line"),
    [
        ("state_output: terse", [], "Name: a - Function: test.nop - Result: Clean"),
        ("state_output: mixed_id", [], "Name: a - Function: test.nop - Result: Clean"),
        ("state_output: terse", ["--state-output", "full"], "ID: a"),
        ("state_output: full", [], "ID: a"),
    ],
)
def test_state_output_of_the_configuration_is_the_default(
    folder: str,
    config: str,
    options: list[str],
    line: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with (Path(folder) / "minion").open("a") as file:
        file.write(f"{config}\n")
    assert run(["-c", folder, "call", "--local", *options, "state.apply", "a"]) == 0
    assert line in capsys.readouterr().out


def test_state_verbose_false_in_the_configuration_hides_unchanged_states(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (Path(folder) / "minion.d").mkdir()
    (Path(folder) / "minion.d" / "x.conf").write_text("state_verbose: false\n")
    assert run(["-c", folder, "call", "--local", "state.apply", "a"]) == 0
    shown = capsys.readouterr().out
    assert "ID: b" in shown
    assert "ID: a" not in shown


def test_unknown_state_output_is_refused_with_the_nearest(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with (Path(folder) / "minion").open("a") as file:
        file.write("state_output: ters\n")
    assert run(["-c", folder, "call", "--local", "state.apply", "a"]) == 2
    assert "did you mean 'terse'" in capsys.readouterr().err


def test_style_of_call_is_read_from_its_own_config_dir(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with (Path(folder) / "minion").open("a") as file:
        file.write("state_output: terse\nstate_verbose: false\n")
    assert run(["call", "--local", "-c", folder, "state.apply", "a"]) == 0
    shown = capsys.readouterr().out
    assert "Name: b - Function: test.succeed_with_changes" in shown
    assert "Name: a" not in shown


def test_job_show_and_chain_preview_take_the_style_of_the_masters_configuration(
    folder: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (Path(folder) / "master").write_text("state_output: terse\n")
    monkeypatch.setattr(job, "connect", Answering)
    monkeypatch.setattr(chain, "connect", Answering)
    assert run(["-c", folder, "job", "show", "1"]) == 0
    assert "Name: a - Function: test.nop - Result: Clean" in capsys.readouterr().out
    assert run(["-c", folder, "job", "show", "1", "--state-output", "full"]) == 0
    assert "ID: a" in capsys.readouterr().out
    assert run(["-c", folder, "chain", "preview", "1"]) == 0
    assert "Name: a - Function: test.nop - Result: Clean" in capsys.readouterr().out
