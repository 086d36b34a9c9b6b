"""What a client may ask the master, one frozen record per verb.

The master's table (`master/verbs.py`) names for each verb the right that it needs and the handler;
a verb that is not in VERBS does not exist. "-> stream" verbs answer with several items. Each
record is imported from its file when it is first asked for (`core/lazy.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from catena.core.lazy import LazyRecords

if TYPE_CHECKING:
    from catena.client.requests.chains import (
        BlobPut as BlobPut,
    )
    from catena.client.requests.chains import (
        ChainAction as ChainAction,
    )
    from catena.client.requests.chains import (
        ChainAdd as ChainAdd,
    )
    from catena.client.requests.chains import (
        ChainCreate as ChainCreate,
    )
    from catena.client.requests.chains import (
        ChainDocument as ChainDocument,
    )
    from catena.client.requests.chains import (
        ChainEdit as ChainEdit,
    )
    from catena.client.requests.chains import (
        ChainList as ChainList,
    )
    from catena.client.requests.chains import (
        ChainMove as ChainMove,
    )
    from catena.client.requests.chains import (
        ChainRef as ChainRef,
    )
    from catena.client.requests.chains import (
        ChainRemoveEntry as ChainRemoveEntry,
    )
    from catena.client.requests.chains import (
        ChainResolve as ChainResolve,
    )
    from catena.client.requests.chains import (
        ChainSchedule as ChainSchedule,
    )
    from catena.client.requests.events import (
        EventSend as EventSend,
    )
    from catena.client.requests.events import (
        EventWatch as EventWatch,
    )
    from catena.client.requests.jobs import (
        JobCancelRequest as JobCancelRequest,
    )
    from catena.client.requests.jobs import (
        JobList as JobList,
    )
    from catena.client.requests.jobs import (
        JobShow as JobShow,
    )
    from catena.client.requests.jobs import (
        JobWatch as JobWatch,
    )
    from catena.client.requests.jobs import (
        RequestFind as RequestFind,
    )
    from catena.client.requests.jobs import (
        RunJob as RunJob,
    )
    from catena.client.requests.jobs import (
        RunnerCall as RunnerCall,
    )
    from catena.client.requests.keys import (
        KeyChange as KeyChange,
    )
    from catena.client.requests.keys import (
        KeyFinger as KeyFinger,
    )
    from catena.client.requests.keys import (
        KeyList as KeyList,
    )
    from catena.client.requests.keys import (
        TokenCreate as TokenCreate,
    )
    from catena.client.requests.minions import (
        MinionList as MinionList,
    )
    from catena.client.requests.minions import (
        MinionShow as MinionShow,
    )

#: File -> the records in it.
_HOMES: Mapping[str, str] = {
    "jobs": "RunJob JobList JobShow JobWatch JobCancelRequest RunnerCall RequestFind",
    "events": "EventWatch EventSend",
    "keys": "KeyList KeyChange KeyFinger TokenCreate",
    "minions": "MinionList MinionShow",
    "chains": (
        "BlobPut ChainCreate ChainAction ChainAdd ChainEdit ChainMove ChainRemoveEntry "
        "ChainDocument ChainSchedule ChainRef ChainList ChainResolve"
    ),
}

#: Verb -> name of its record; ChainRef says only which chain.
VERBS: Mapping[str, str] = {
    "job.run": "RunJob",
    "job.list": "JobList",
    "job.show": "JobShow",
    "job.watch": "JobWatch",
    "job.cancel": "JobCancelRequest",
    "request.find": "RequestFind",
    "event.watch": "EventWatch",
    "event.send": "EventSend",
    "key.list": "KeyList",
    "key.change": "KeyChange",
    "key.finger": "KeyFinger",
    "key.token": "TokenCreate",
    "minion.list": "MinionList",
    "minion.show": "MinionShow",
    "runner.call": "RunnerCall",
    "blob.put": "BlobPut",
    "chain.create": "ChainCreate",
    "chain.add": "ChainAdd",
    "chain.edit": "ChainEdit",
    "chain.move": "ChainMove",
    "chain.remove_entry": "ChainRemoveEntry",
    "chain.apply": "ChainDocument",
    "chain.schedule": "ChainSchedule",
    "chain.approve": "ChainRef",
    "chain.list": "ChainList",
    "chain.show": "ChainRef",
    "chain.watch": "ChainRef",
    "chain.cancel": "ChainRef",
    "chain.retry": "ChainRef",
    "chain.resolve": "ChainResolve",
    "chain.release": "ChainRef",
    "chain.render": "ChainRef",
    "chain.preview": "ChainRef",
    "chain.delete": "ChainRef",
}


#: Verbs that change something. A client sends them with a key, so that it may repeat them after a
#: lost answer; the master carries out what has one key once. Four of them store no key because
#: a repetition changes nothing: job.cancel, blob.put, chain.render, and key.change that rotates.
CHANGES = frozenset(
    (
        "job.run job.cancel event.send key.change key.token runner.call blob.put chain.create "
        "chain.add chain.edit chain.move chain.remove_entry chain.apply chain.schedule "
        "chain.approve chain.cancel chain.retry chain.resolve chain.release chain.render "
        "chain.preview chain.delete"
    ).split()
)

#: Name of a record -> the record.
record = LazyRecords(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    return record(name)
