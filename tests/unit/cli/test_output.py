from __future__ import annotations

import json

from catena.cli.output import OUTPUTS, renderer
from catena.cli.output.highstate import highstate
from catena.cli.output.style import StateStyle
from catena.cli.output.table import table
from catena.cli.output.text import printable


def states(**results: bool | None) -> dict[str, dict[str, object]]:
    return {
        f"file_|-{name}_|-/tmp/{name}_|-managed": {
            "__id__": name,
            "name": f"/tmp/{name}",
            "result": result,
            "changes": {"diff": "--- a\n+++ b"} if result else {},
            "comment": f"about {name}",
            "__run_num__": number,
            "duration": 1.5,
            "start_time": "10:00:00.000000",
        }
        for number, (name, result) in enumerate(results.items())
    }


def test_every_outputter_renders_its_value() -> None:
    for name in OUTPUTS:
        text = renderer(name)("web1", {"a": [1, {"b": None}]}, False)
        assert text == "" if name == "quiet" else "web1" in text


def test_highstate_shows_failures_last_and_counts_them() -> None:
    text = highstate("web1", states(bad=False, good=True, maybe=None), False)
    assert text.index("ID: good") < text.index("ID: bad")
    assert "Succeeded: 2 (unchanged=1, changed=1)" in text
    assert "Failed:    1" in text
    assert "+++ b" in text


def test_highstate_lists_compile_errors_without_a_summary() -> None:
    text = highstate("web1", ["a.sls:3: wrong\n  > x"], False)
    assert "a.sls:3: wrong" in text
    assert "Summary" not in text


def test_highstate_shows_the_states_applied_by_an_action_of_a_chain() -> None:
    outer = {
        "mgrcompat_|-mgr_actionchain_1_action_2_chunk_1_|-state.apply_|-module_run": {
            "__id__": "mgr_actionchain_1_action_2_chunk_1",
            "result": True,
            "changes": {"ret": states(inner=True)},
            "comment": "",
            "__run_num__": 0,
        }
    }
    text = highstate("web1", outer, False)
    assert "ID: inner" in text
    assert "Summary for this action" in text


def test_highstate_is_coloured_only_on_request() -> None:
    assert "\x1b[" in highstate("web1", states(good=True), True)
    assert "\x1b[" not in highstate("web1", states(good=True), False)


def test_outputters_escape_control_characters_of_a_host() -> None:
    assert printable("a\x1b[2Jb\u202ec\rd") == "a\\x1b[2Jb\\x202ec\\x0dd"
    assert "\x1b" not in renderer("nested")("web1", {"k\x1b": "v\x1b[0m"}, False)
    assert "\x1b" not in renderer("txt")("web1", "x\x1b]0;title\x07", False)


def test_json_output_is_one_document_per_minion() -> None:
    assert json.loads(renderer("json")("web1", b"\xff", False)) == {"web1": "\ufffd"}


def test_table_columns_fit_their_content_and_long_cells_are_truncated() -> None:
    rows: list[dict[str, str | None]] = [
        {"id": "a", "of": "y" * 100, "why": "x" * 100},
        {"id": "bb", "why": None},
    ]
    lines = table(("id", "of", "why"), rows).splitlines()
    assert lines[0] == f"ID  {'OF':60}  WHY"
    assert lines[1] == f"a   {'y' * 59}…  {'x' * 100}"
    assert lines[2] == f"bb  {'-':60}  -"


def test_json_output_is_valid_for_any_value_of_a_host() -> None:
    said = {"n": float("nan"), "i": [float("-inf"), 1.5], "t": "\x9b2J\u202e ä"}
    shown = {"m": {"n": "nan", "i": ["-inf", 1.5], "t": "\x9b2J\u202e ä"}}
    for name in ("json", "jsonl"):
        assert json.loads(renderer(name)("m", said, False), parse_constant=str) == shown
    assert "NaN" not in renderer("txt")("m", said, False)
    text = renderer("json")("m", said, False)
    assert "\x9b" not in text and "\u202e" not in text and "ä" in text


def test_nested_output_indents_every_line_of_a_host() -> None:
    said = {"a\nb:": ["c\nweb2:\n    True"], "d": "e\nweb3:"}
    lines = renderer("nested")("web1", said, False).split("\n")
    assert [line for line in lines if not line.startswith(" ")] == ["web1:"]


def test_terse_highstate_has_one_line_per_state_and_the_same_summary() -> None:
    text = highstate("web1", states(good=True, bad=False), False, StateStyle("terse"))
    assert "  Name: /tmp/good - Function: file.managed - Result: Changed" in text
    assert "ID: good" not in text
    assert "ID: bad" in text
    assert "Total states run:     2" in text


def test_changes_style_shows_changed_states_in_full() -> None:
    quiet = {key: {**row, "changes": {}} for key, row in states(still=True).items()}
    text = highstate("web1", {**states(good=True), **quiet}, False, StateStyle("changes"))
    assert "ID: good" in text
    assert "Name: /tmp/still - Function: file.managed - Result: Clean" in text


def test_unchanged_states_are_only_counted_when_not_verbose() -> None:
    quiet = {key: {**row, "changes": {}} for key, row in states(still=True).items()}
    text = highstate("web1", quiet, False, StateStyle(verbose=False))
    assert "still" not in text
    assert "Total states run:     1" in text


def test_highstate_without_states_says_that_there_are_none() -> None:
    assert highstate("web1", {}, False).splitlines()[0] == "web1:"
    assert "No states" in highstate("web1", {}, False)
