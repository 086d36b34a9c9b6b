from __future__ import annotations

import os

from catena.minion.loop import Loop


def test_reused_descriptor_number_does_not_inherit_readiness() -> None:
    loop, told = Loop(), []
    first, second, fresh = os.pipe(), os.pipe(), os.pipe()

    def end(_mask: int) -> None:
        """As at the end of a process: another one begins whose descriptor has the same number."""
        told.append("end")
        loop.forget(second[0])
        os.dup2(fresh[0], second[0])
        loop.watch(second[0], lambda _mask: told.append("fresh"))

    try:
        loop.watch(first[0], end)
        loop.watch(second[0], lambda _mask: told.append("second"))
        for pipe in (first, second):
            os.write(pipe[1], b"x")
        loop.poll(0)
        assert told == ["end"]
        os.read(first[0], 1)
        os.write(fresh[1], b"x")
        loop.poll(0)
        assert told == ["end", "fresh"]
    finally:
        for handle in (*first, *second, *fresh):
            os.close(handle)
