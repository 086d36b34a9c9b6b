"""Work on hosts in processes and threads: what comes back, and that one harms no other."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

import pytest

from catena.cli.ssh_hosts import Hosts
from catena.cli.ssh_tasks import Task
from catena.cli.ssh_workers import HostError, HostWorkers
from catena.cli.watch import JobPrinter
from catena.core.errors import CatenaError, LimitError, UnreachableError
from catena.ssh.connect.errors import PushPhase, SshError


def _answer(value: Any) -> Mapping[str, Any]:
    return {"value": value, "out": "", "code": 0}


def _raises(error: Exception) -> Callable[[Any], Any]:
    def work(watch: Any) -> Any:
        raise error

    return work


def _ran(tasks: list[Task], count: int = 2) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    said: list[tuple[str, str]] = []
    with HostWorkers(tasks, count) as workers:
        found = {task.host: result for task, result in workers.run(lambda *a: said.append(a))}
    return found, said


def test_each_task_runs_in_the_main_thread_of_another_process() -> None:
    def work(watch: Any) -> Mapping[str, Any]:
        main = threading.current_thread() is threading.main_thread()
        return _answer([os.getpid() != here, main])

    here = os.getpid()
    found, _ = _ran([Task(f"h{n}", work) for n in range(5)])
    assert {host: answer["value"] for host, answer in found.items()} == {
        f"h{n}": [True, True] for n in range(5)
    }


def test_worker_passes_values_and_progress_unchanged() -> None:
    value = {80: (1, b"\xff"), "day": date(2026, 1, 2), "none": None}

    def work(watch: Any) -> Mapping[str, Any]:
        watch(PushPhase.connect, "10.0.0.1")
        watch(PushPhase.run, "")
        return _answer(value)

    found, said = _ran([Task("h1", work), Task("h2", lambda watch: None)])
    assert found == {"h1": _answer(value), "h2": None}
    assert said == [("h1", "connect: 10.0.0.1"), ("h1", "run")]


def test_worker_errors_keep_their_text_code_and_class() -> None:
    away = SshError("h1", PushPhase.connect, "refused", waits=True)
    tasks = [
        Task("h1", _raises(away)),
        Task("h2", _raises(LimitError("too much"))),
        Task("h3", _raises(KeyError("odd"))),
    ]
    found, _ = _ran(tasks, 1)
    assert isinstance(found["h1"], UnreachableError) and str(found["h1"]) == str(away)
    assert isinstance(found["h2"], HostError) and str(found["h2"]) == "too much"
    assert found["h2"].code == LimitError.exit_code
    assert "KeyError" in str(found["h3"])


def test_answer_of_a_worker_may_carry_an_error() -> None:
    def work(watch: Any) -> Mapping[str, Any]:
        return {**_answer(1), "trouble": CatenaError("could not clean up")}

    found, _ = _ran([Task("h1", work)], 1)
    assert found["h1"]["value"] == 1 and str(found["h1"]["trouble"]) == "could not clean up"


def test_dead_worker_process_fails_only_its_host() -> None:
    tasks = [Task("h1", lambda watch: os._exit(3)), Task("h2", lambda watch: _answer(2))]
    found, _ = _ran(tasks)
    assert found["h2"] == _answer(2)
    assert str(found["h1"]) == "h1: the process of its visit ended"


def test_dead_worker_process_is_replaced() -> None:
    tasks = [Task(f"h{n}", lambda watch: os._exit(3)) for n in range(3)]
    found, _ = _ran(tasks, 1)
    assert len(found) == 3
    assert all("the process of its visit ended" in str(error) for error in found.values())


def test_worker_processes_end_with_the_pool() -> None:
    workers = HostWorkers([Task("h1", lambda watch: _answer(1))], 3)
    with workers:
        pass
    for pid in workers._pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("renders", [True, False])
@pytest.mark.parametrize("count", [1, 4])
def test_hosts_give_the_same_results_in_processes_threads_and_inline(
    renders: bool, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = [Task(f"h{n}", lambda watch: _answer(True)) for n in range(count)]
    assert Hosts(tasks, JobPrinter("txt"), "").run(4, renders) == 0
    assert sorted(capsys.readouterr().out.split()) == sorted(
        [f"h{n}:" for n in range(count)] + ["true"] * count
    )
