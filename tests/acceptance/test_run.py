"""`catena run`, `job` and `event` through the installed command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fleet import Fleet

ALL = {"web1", "web2", "db1"}


def answers(fleet: Fleet, *words: str, code: int = 0) -> Any:
    done = fleet.catena("run", "--out", "json", *words, check=False)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["*"], ALL),
        (["web*"], {"web1", "web2"}),
        (["-E", "web[12]"], {"web1", "web2"}),
        (["-L", "web1,db1"], {"web1", "db1"}),
        (["-G", "role:web"], {"web1", "web2"}),
        (["-P", "role:^d"], {"db1"}),
        (["-I", "colour:red"], {"db1"}),
        (["-S", "127.0.0.0/8"], ALL),
        (["-C", "G@role:web and not web2"], {"web1"}),
    ],
)
def test_targets_match_as_in_salt(fleet: Fleet, words: list[str], expected: set[str]) -> None:
    assert set(answers(fleet, *words, "test.ping")) == expected


def test_arguments_reach_the_function_as_typed(fleet: Fleet) -> None:
    found = answers(fleet, "web1", "test.arg", "007", "word", "a=[1, x]")["web1"]
    assert found["args"] == [7, "word"]
    assert found["kwargs"]["a"] == [1, "x"]


def test_job_id_as_an_argument_stays_text(fleet: Fleet, tmp_path: Path) -> None:
    jid = "20261122144001123456"
    found = answers(fleet, "web1", "test.arg", jid, f"[{jid}, 1]", f"jid={jid}")["web1"]
    assert found["args"] == [jid, [jid, 1]]
    assert found["kwargs"]["jid"] == jid
    answers(fleet, "web1", "test.ping")
    (real, *_) = json.loads(fleet.catena("job", "list", "--out", "json").stdout)
    shown = fleet.catena("runner", "jobs.lookup_jid", real["jid"], "--out", "json").stdout
    assert json.loads(shown) == {"web1": True}
    killed = fleet.catena("run", "web1", "saltutil.kill_job", jid, check=False)
    assert "64 bits" not in killed.stdout + killed.stderr
    chain = tmp_path / "chain.yaml"
    chain.write_text(
        f"label: jids\nactions:\n- call: test.arg\n  target: web1\n  args: [{jid}, [{jid}]]\n"
    )
    fleet.catena("chain", "apply", str(chain), "--schedule", "now", "--watch")
    shown = fleet.catena("chain", "show", "jids", "--out", "json").stdout
    assert f'"{jid}"' in shown and f" {jid}," not in shown


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["nobody", "test.ping"], 2, "nobody"),
        (["web9*", "test.ping"], 2, "No minions matched the target"),
        (["-L", "web1,wbe2", "test.ping"], 2, "did you mean 'web2'"),
        (["-C", "web1 and (", "test.ping"], 2, ""),
        (["web1", "test.ping", "--out", "xml"], 2, "xml"),
        (["web1"], 2, "FUNCTION"),
    ],
)
def test_invalid_request_is_refused_with_its_exit_code(
    fleet: Fleet, words: list[str], code: int, text: str
) -> None:
    done = fleet.catena("run", *words, check=False)
    assert done.returncode == code, done.stderr
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_unknown_function_is_refused_with_the_nearest(fleet: Fleet) -> None:
    found = answers(fleet, "web1", "tset.ping", code=1)["web1"]
    assert "'tset.ping' is not available" in found
    assert "test.ping" in found


def test_unknown_argument_is_refused_with_the_nearest(fleet: Fleet) -> None:
    found = answers(fleet, "web1", "cmd.run", "true", "cwdd=/", code=1)["web1"]
    assert "cwdd" in found
    assert "cwd" in found


def test_states_are_applied_with_pillar_and_grains(fleet: Fleet) -> None:
    first = answers(fleet, "*", "state.apply")
    assert {name: [s["result"] for s in run.values()] for name, run in first.items()} == {
        name: [True] for name in ALL
    }
    assert (fleet.home("db1") / "base.txt").read_text() == "db1 red\n"
    again = answers(fleet, "*", "state.apply")
    assert all(not state["changes"] for run in again.values() for state in run.values())


def test_error_of_a_broken_sls_names_file_and_line(fleet: Fleet) -> None:
    (error,) = answers(fleet, "web1", "state.apply", "broken", code=1)["web1"]
    assert "broken.sls" in error
    assert "nowhere" in error
    assert "3" in error


def test_failed_state_is_shown_with_exit_code_1(fleet: Fleet) -> None:
    done = fleet.catena("run", "web1", "state.apply", "failing", check=False)
    assert done.returncode == 1
    assert "Failed:    1" in done.stdout


def test_detached_job_can_be_shown_later(fleet: Fleet) -> None:
    done = fleet.catena("run", "web1", "cmd.run", "echo later", "--async")
    jid = done.stdout.split()[-1]
    watched = fleet.catena("job", "watch", jid, "--out", "json")
    assert json.loads(watched.stdout) == {"web1": "later"}
    listed = json.loads(fleet.catena("job", "list", "--out", "json").stdout)
    assert jid in {row["jid"] for row in listed}
    shown = json.loads(fleet.catena("job", "show", jid, "--out", "json").stdout)
    assert "later" in json.dumps(shown)


def test_job_can_be_cancelled_with_its_process_tree(fleet: Fleet) -> None:
    mark = fleet.folder / "cancelled"
    command = f"touch {mark}.begun; sleep 60; touch {mark}.ended"
    jid = fleet.catena("run", "web1", "cmd.run", command, "--async").stdout.split()[-1]
    from fleet import wait_for

    wait_for("the job", lambda: (fleet.folder / "cancelled.begun").exists())
    assert fleet.catena("run", "web1", "test.ping").returncode == 0
    fleet.catena("job", "cancel", jid)
    done = fleet.catena("job", "watch", jid, check=False)
    assert done.returncode == 1
    assert not (fleet.folder / "cancelled.ended").exists()


def test_events_are_watched_and_sent(fleet: Fleet) -> None:
    fleet.catena("event", "send", "my/tag", "a=1")
    done = fleet.catena("event", "watch", "my/*", "--after", "0", "--count", "1", "--jsonl")
    item = json.loads(done.stdout)
    assert (item["tag"], item["data"]["a"]) == ("my/tag", 1)


def test_event_of_a_minion_can_not_impersonate_another(fleet: Fleet) -> None:
    answers(fleet, "web1", "event.send", "salt/minion/db1/start")
    done = fleet.catena("event", "watch", "*db1/start*", "--after", "0", "--count", "2", "--jsonl")
    items = [json.loads(line) for line in done.stdout.splitlines()]
    # The true one is the master's own, made of db1's connection.
    assert [item["source"] for item in items if item["tag"] == "salt/minion/db1/start"] == [""]
    assert "minion/web1/event/salt/minion/db1/start" in {item["tag"] for item in items}


def test_minions_are_listed_and_shown(fleet: Fleet) -> None:
    rows = json.loads(fleet.catena("minion", "list", "--out", "json").stdout)
    assert {row["id"] for row in rows if row["up"]} == ALL
    shown = json.loads(fleet.catena("minion", "show", "web1", "--out", "json").stdout)
    assert shown["grains"]["role"] == "web"


def test_call_on_a_host_uses_the_masters_pillar_and_files(fleet: Fleet) -> None:
    conf = str(fleet.home("web1") / "etc/catena")
    done = fleet.catena("call", "--config-dir", conf, "pillar.get", "colour", "unmask=True",
                        "--out", "json")  # fmt: skip
    assert json.loads(done.stdout) == {"local": "blue"}
    done = fleet.catena("call", "--config-dir", conf, "cp.list_master", "--out", "json")
    assert "base.sls" in json.loads(done.stdout)["local"]


def test_runners_return_their_results(fleet: Fleet) -> None:
    found = json.loads(fleet.catena("runner", "manage.status", "--out", "json").stdout)
    assert set(found["up"]) == ALL
    done = fleet.catena("runner", "mange.status", check=False)
    assert done.returncode == 2
    assert "manage.status" in done.stderr


def test_doc_shows_arguments_and_text(fleet: Fleet) -> None:
    assert "cmd" in fleet.catena("doc", "cmd.run").stdout
    assert fleet.catena("doc", "cmd.rum", check=False).returncode == 2


def test_batches_run_one_after_the_other(fleet: Fleet) -> None:
    assert set(answers(fleet, "--batch", "1", "*", "test.ping")) == ALL
