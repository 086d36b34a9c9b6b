from __future__ import annotations

from typing import Any

from catena.cli.output.jobs import job_text
from catena.client.replies.jobs import JobDetail, JobOutcome, JobStep
from catena.core.frozen import replace
from catena.core.job import JobReturn


def view(**minions: JobOutcome) -> JobDetail:
    return JobDetail(
        jid="20261121153811000000",
        fun="cmd.run",
        args=("id",),
        kwargs={"runas": "joe"},
        target="web*",
        tgt_type="glob",
        user="root",
        metadata={},
        issued=1.0,
        not_after=2.0,
        ended=None,
        minions=minions,
    )


def ret(**changes: Any) -> JobOutcome:
    found = JobReturn("1", "cmd.run", (), True, 0, "ok", 1.0, 0.25)
    return JobOutcome("done", ret=replace(found, **changes), late=False)


def test_job_text_names_the_function_the_target_and_the_user() -> None:
    head = job_text(view(), False).splitlines()
    assert head[0] == "Job 20261121153811000000: cmd.run id runas=joe"
    assert head[1].startswith("  on web* (glob), by root, at 1970-01-01")
    assert head[1].endswith(", not ended")


def test_job_text_distinguishes_failure_and_success() -> None:
    text = job_text(view(a=ret(), b=ret(success=False, retcode=3, value="no")), False)
    assert "a succeeded in 0.25 s\na:\n    ok" in text
    assert "b failed (code 3) in 0.25 s\nb:\n    no" in text


def test_job_text_shows_the_progress_of_a_minion_without_an_answer() -> None:
    waiting = JobOutcome("queued", "behind 1", steps=(JobStep(1, "queued", {}, 1.0),))
    assert "a: queued: behind 1, 1 steps, the last at " in job_text(view(a=waiting), False)


def test_job_text_escapes_control_characters_of_a_host() -> None:
    assert "\x1b" not in job_text(view(a=JobOutcome("queued", "\x1b[2J")), False)
