from __future__ import annotations

from typing import Any

from catena.cli.output.jobs import job_text


def view(**minions: dict[str, Any]) -> dict[str, Any]:
    return {
        "jid": "20261121153811000000",
        "fun": "cmd.run",
        "args": ["id"],
        "kwargs": {"runas": "joe"},
        "target": "web*",
        "tgt_type": "glob",
        "user": "root",
        "issued": 1.0,
        "ended": None,
        "minions": minions,
    }


def ret(**changes: Any) -> dict[str, Any]:
    found = {"success": True, "retcode": 0, "value": "ok", "out": "", "duration_seconds": 0.25}
    return {"state": "done", "ret": {**found, **changes}, "late": False}


def test_a_job_says_what_was_asked_of_whom() -> None:
    head = job_text(view(), False).splitlines()
    assert head[0] == "Job 20261121153811000000: cmd.run id runas=joe"
    assert head[1].startswith("  on web* (glob), by root, at 1970-01-01")
    assert head[1].endswith(", not ended")


def test_a_failure_is_told_from_a_success() -> None:
    text = job_text(view(a=ret(), b=ret(success=False, retcode=3, value="no")), False)
    assert "a succeeded in 0.25 s\na:\n    ok" in text
    assert "b failed (code 3) in 0.25 s\nb:\n    no" in text


def test_a_minion_without_an_answer_shows_where_it_stands() -> None:
    waiting = {"state": "queued", "detail": "behind 1", "steps": [{"when": 1.0}]}
    assert "a: queued: behind 1, 1 steps, the last at " in job_text(view(a=waiting), False)


def test_what_a_host_says_can_not_steer_the_terminal() -> None:
    assert "\x1b" not in job_text(view(a={"state": "queued", "detail": "\x1b[2J"}), False)
