from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def once(tmp_path: Path, text: str) -> tuple[int, list[dict[str, Any]]]:
    done = subprocess.run(
        [sys.executable, "-m", "catena.runtime.once"],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def job(tmp_path: Path, fun: str, *args: Any, **more: Any) -> str:
    place = {
        "id": "web1",
        "machine_id": "m1",
        "conf_dir": str(tmp_path / "conf"),
        "cache_dir": str(tmp_path / "cache"),
        "pki_dir": str(tmp_path / "pki"),
        "grains": {"id": "web1"},
    }
    spec = {"jid": "20260101000000000000", "fun": fun, "args": list(args)}
    return json.dumps({"place": place, "spec": spec, **more})


def test_job_from_stdin_prints_its_return_as_the_last_line(tmp_path: Path) -> None:
    code, lines = once(tmp_path, job(tmp_path, "pillar.raw", pillar={"k": "v"}))
    assert code == 0
    assert lines[-1]["return"]["value"] == {"k": "v"}
    assert lines[-1]["after"] is None


def test_failed_job_from_stdin_prints_a_return(tmp_path: Path) -> None:
    code, lines = once(tmp_path, job(tmp_path, "no.such"))
    assert code == 0
    assert lines[-1]["return"]["retcode"] == 1


def test_output_printed_by_a_job_is_not_in_its_return(tmp_path: Path) -> None:
    (tmp_path / "roots/_modules").mkdir(parents=True)
    (tmp_path / "roots/_modules/loud.py").write_text("def shout():\n    print('loud')\n")
    roots = {"base": [str(tmp_path / "roots")]}
    once(tmp_path, job(tmp_path, "saltutil.sync_modules", roots=roots))
    code, lines = once(tmp_path, job(tmp_path, "loud.shout", roots=roots))
    assert code == 0
    assert [list(line) for line in lines] == [["return", "after"]]


def test_invalid_job_on_stdin_is_refused_with_the_reason(tmp_path: Path) -> None:
    for text, why in (
        ("nonsense", "Expecting value"),
        ("[]", "one JSON object"),
        ('{"spec": {"jid": "1", "fun": "test.ping"}}', "place"),
        ('{"spec": {"jid": 1, "fun": "test.ping"}}', "spec.jid"),
    ):
        code, lines = once(tmp_path, text)
        assert code == 2
        assert why in lines[0]["error"]
