"""An execution module whose effects are counted outside of the product.

Not part of the product: the simulated hosts alone know it, as `witness.mark`.
"""

from __future__ import annotations

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import function
from tests.sim.stage import Stage
from tests.sim.tasks import Job

#: How often a job prints, where jobs print.
PRINT_SECONDS = 0.6
#: Set by the world that runs.
STAGE: list[Stage] = []


@function()
def mark(context: Context, key: str, seconds: float = 0.0, fails: bool = False) -> str:
    """Be seen to begin, take some time, be seen to end.

    Raises:
        CommandExecutionError: it was told to fail.
    """
    stage = STAGE[-1]
    job = stage.turn.running
    assert isinstance(job, Job)
    job.check()
    host = job.host
    epoch = host.epoch_of(key)
    stage.effect(host, key, "begins", epoch)
    if stage.prints is None:
        job.sleep(seconds)
    else:
        _sleep_aloud(context, job, key, seconds)
    stage.effect(host, key, "ends", epoch)
    if fails:
        raise CommandExecutionError(f"{key} was told to fail")
    return key


def _sleep_aloud(context: Context, job: Job, key: str, seconds: float) -> None:
    """Let time pass as a command does that prints now and then, to both streams."""
    context.host.show_output()
    tap = context.host.listen()
    lines = 1 + int(seconds / PRINT_SECONDS)
    for number in range(lines):
        if tap is not None:
            stream = "stderr" if number % 4 == 3 else "stdout"
            tap.take(stream, f"{key} {number} of {lines}\n".encode())
        job.sleep(seconds / lines)
    if tap is not None:
        tap.close()
