"""Comments of functions that ran states name the failed states."""

from typing import Any

from catena.states.function_calls import faults


def row(result: bool, **changes: Any) -> dict[str, Any]:
    return {"result": result, "comment": 'Command "x" run', "changes": changes}


def test_failed_command_shows_its_code_and_the_end_of_what_it_wrote() -> None:
    value = {
        "good": row(True, retcode=0, stdout="fine"),
        "bad": row(False, retcode=4, stdout="much", stderr="1\n2\n3\nno such disk\n"),
    }
    assert list(faults(value)) == ['bad: Command "x" run, exit code 4\n  2\n  3\n  no such disk']


def test_failure_that_is_no_command_shows_its_comment() -> None:
    assert list(faults({"bad": row(False)})) == ['bad: Command "x" run']
    assert list(faults(["No matching sls"])) == ["No matching sls"]
