"""An execution module whose effects are counted outside of the product.

Not part of the product: the simulated hosts alone know it, as `witness.mark`.
"""

from __future__ import annotations

from catena.core.context import Context
from catena.core.errors import CommandExecutionError
from catena.core.plugins import function
from tests.sim.stage import Stage
from tests.sim.tasks import Job

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
    job.sleep(seconds)
    stage.effect(host, key, "ends", epoch)
    if fails:
        raise CommandExecutionError(f"{key} was told to fail")
    return key
