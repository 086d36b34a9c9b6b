"""Keys of requests, as the store keeps them."""

from __future__ import annotations

import sqlalchemy as sa

from catena.master.requests.once import JOB_KEY_LIMIT, job_key
from catena.master.store.tables import JOBS


def test_key_of_a_job_fits_its_column_and_stays_its_own() -> None:
    kind = JOBS.c.idempotency.type
    assert isinstance(kind, sa.String)
    assert kind.length == JOB_KEY_LIMIT
    assert job_key("anna", "") is None
    assert job_key("anna", "k" * (JOB_KEY_LIMIT - 5)) == "anna\n" + "k" * (JOB_KEY_LIMIT - 5)
    long = [job_key(user, "k" * 600 + end) for user in ("anna", "bert") for end in "ab"]
    assert len(set(long)) == 4
    assert all(key is not None and len(key) <= JOB_KEY_LIMIT for key in long)
    assert job_key("anna", "k" * 600 + "a") == long[0]
