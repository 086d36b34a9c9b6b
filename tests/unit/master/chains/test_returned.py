from __future__ import annotations

from typing import Any

from catena.core.chain_calls import RESUME
from catena.core.job import JobReturn
from catena.master.chains import returned


def ret(value: Any) -> JobReturn:
    return JobReturn("20260101000000000001", RESUME, (), True, 0, value, 1000.0, 2.0)


def key(chain: int) -> str:
    return f"mgrcompat_|-mgr_actionchain_{chain}_action_7_chunk_1_|-state.apply_|-module_run"


def test_results_of_the_first_hundred_chains_of_a_return_are_read() -> None:
    value = {key(chain): {"result": True} for chain in range(1, 1000)}
    found = returned.read(ret(value))
    assert list(found) == list(range(1, 101))
    assert set(found[1].outcomes) == {7}


def test_files_of_the_first_hundred_chains_of_a_return_are_read() -> None:
    value = {
        str(chain): {"__sls__": f"actionchains.actionchain_{chain}_m_1", "result": False}
        for chain in range(1, 1000)
    }
    assert list(returned.read(ret(value))) == list(range(1, 101))
