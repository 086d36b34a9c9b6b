"""Every message that crosses a socket of catena, as a frozen record.

The number in TYPES is the type byte on the wire. It never changes its meaning; a new message takes
a new number. ALLOWED lists which side may receive a message on which socket; the receiver refuses
everything else (attack row 2020-11651). `docs/reference/wire.md` is generated from this package.

Each record is imported from its file when it is first used (`core/lazy.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, FrozenSet, Mapping, Tuple

from catena.core.frozen import dataclass, field
from catena.core.lazy import LazyRecords

if TYPE_CHECKING:
    from catena.transport.messages.client import (
        ClientItem as ClientItem,
    )
    from catena.transport.messages.client import (
        ClientItems as ClientItems,
    )
    from catena.transport.messages.client import (
        ClientReply as ClientReply,
    )
    from catena.transport.messages.client import (
        ClientRequest as ClientRequest,
    )
    from catena.transport.messages.client import (
        ClientStop as ClientStop,
    )
    from catena.transport.messages.client import (
        Failure as Failure,
    )
    from catena.transport.messages.enrol import (
        EnrolOffer as EnrolOffer,
    )
    from catena.transport.messages.enrol import (
        EnrolProbe as EnrolProbe,
    )
    from catena.transport.messages.enrol import (
        EnrolReply as EnrolReply,
    )
    from catena.transport.messages.enrol import (
        EnrolRequest as EnrolRequest,
    )
    from catena.transport.messages.events import (
        EventFired as EventFired,
    )
    from catena.transport.messages.events import (
        EventStored as EventStored,
    )
    from catena.transport.messages.files import (
        ChunkReply as ChunkReply,
    )
    from catena.transport.messages.files import (
        ChunkRequest as ChunkRequest,
    )
    from catena.transport.messages.files import (
        FilePush as FilePush,
    )
    from catena.transport.messages.files import (
        FilesReply as FilesReply,
    )
    from catena.transport.messages.files import (
        FilesRequest as FilesRequest,
    )
    from catena.transport.messages.files import (
        FileStored as FileStored,
    )
    from catena.transport.messages.files import (
        ManifestReply as ManifestReply,
    )
    from catena.transport.messages.files import (
        ManifestRequest as ManifestRequest,
    )
    from catena.transport.messages.jobs import (
        JobCancel as JobCancel,
    )
    from catena.transport.messages.jobs import (
        JobOrder as JobOrder,
    )
    from catena.transport.messages.jobs import (
        JobOutput as JobOutput,
    )
    from catena.transport.messages.jobs import (
        JobProgressed as JobProgressed,
    )
    from catena.transport.messages.jobs import (
        JobReceived as JobReceived,
    )
    from catena.transport.messages.jobs import (
        JobRejected as JobRejected,
    )
    from catena.transport.messages.jobs import (
        JobReturned as JobReturned,
    )
    from catena.transport.messages.jobs import (
        OutputStored as OutputStored,
    )
    from catena.transport.messages.jobs import (
        ReturnPart as ReturnPart,
    )
    from catena.transport.messages.jobs import (
        ReturnStored as ReturnStored,
    )
    from catena.transport.messages.peer import (
        PeerReply as PeerReply,
    )
    from catena.transport.messages.peer import (
        PeerRequest as PeerRequest,
    )
    from catena.transport.messages.pillar import (
        PillarReply as PillarReply,
    )
    from catena.transport.messages.pillar import (
        PillarRequest as PillarRequest,
    )
    from catena.transport.messages.session import (
        Goodbye as Goodbye,
    )
    from catena.transport.messages.session import (
        GrainsUpdate as GrainsUpdate,
    )
    from catena.transport.messages.session import (
        Hello as Hello,
    )
    from catena.transport.messages.session import (
        KeyAnnounce as KeyAnnounce,
    )
    from catena.transport.messages.session import (
        KeyRotate as KeyRotate,
    )
    from catena.transport.messages.session import (
        KeyTaken as KeyTaken,
    )
    from catena.transport.messages.session import (
        Ping as Ping,
    )
    from catena.transport.messages.session import (
        Pong as Pong,
    )
    from catena.transport.messages.session import (
        Refused as Refused,
    )
    from catena.transport.messages.session import (
        Welcome as Welcome,
    )

#: Maximum bytes per message of a large return or of several small files.
CHUNK_BYTES = 512 * 1024
#: Maximum bytes of a file per message. Large pieces save work: each piece costs the same.
PIECE_BYTES = 2 * 1024 * 1024
#: Maximum number of small files in one message.
FILES_AT_ONCE = 128

#: Module -> the records defined in it.
_HOMES: Mapping[str, str] = {
    "enrol": "EnrolProbe EnrolOffer EnrolRequest EnrolReply",
    "session": (
        "Hello Welcome Refused Ping Pong GrainsUpdate Goodbye KeyRotate KeyAnnounce KeyTaken"
    ),
    "jobs": (
        "JobOrder JobReceived JobRejected JobCancel JobProgressed JobReturned "
        "ReturnStored ReturnPart JobOutput OutputStored"
    ),
    "events": "EventFired EventStored",
    "pillar": "PillarRequest PillarReply",
    "peer": "PeerRequest PeerReply",
    "files": (
        "ManifestRequest ManifestReply ChunkRequest ChunkReply FilePush FileStored FilesRequest "
        "FilesReply"
    ),
    "client": "Failure ClientRequest ClientItem ClientItems ClientReply ClientStop",
}

#: Type byte -> name of the record.
TYPES: Mapping[int, str] = {
    1: "EnrolProbe",
    2: "EnrolOffer",
    3: "EnrolRequest",
    4: "EnrolReply",
    10: "Hello",
    11: "Welcome",
    12: "Refused",
    13: "Ping",
    14: "Pong",
    15: "GrainsUpdate",
    16: "Goodbye",
    17: "Failure",
    20: "JobOrder",
    21: "JobReceived",
    22: "JobRejected",
    23: "JobCancel",
    24: "JobProgressed",
    25: "JobReturned",
    26: "ReturnStored",
    27: "ReturnPart",
    28: "JobOutput",
    29: "OutputStored",
    30: "EventFired",
    31: "EventStored",
    40: "PillarRequest",
    41: "PillarReply",
    42: "PeerRequest",
    43: "PeerReply",
    50: "ManifestRequest",
    51: "ManifestReply",
    52: "ChunkRequest",
    53: "ChunkReply",
    54: "FilePush",
    55: "FilesRequest",
    56: "FilesReply",
    57: "FileStored",
    60: "KeyRotate",
    61: "KeyAnnounce",
    62: "KeyTaken",
    70: "ClientRequest",
    71: "ClientItem",
    72: "ClientReply",
    73: "ClientStop",
    74: "ClientItems",
}

#: (socket, receiver) -> what may arrive there.
ALLOWED: Mapping[Tuple[str, str], FrozenSet[str]] = {
    ("enrol", "master"): frozenset("EnrolProbe EnrolRequest".split()),
    ("enrol", "minion"): frozenset("EnrolOffer EnrolReply Failure".split()),
    ("control", "master"): frozenset(
        (
            "Hello Ping Pong GrainsUpdate Goodbye JobReceived JobRejected JobProgressed "
            "JobReturned JobOutput EventFired PillarRequest PeerRequest KeyAnnounce"
        ).split()
    ),
    ("control", "minion"): frozenset(
        (
            "Welcome Refused Ping Pong Goodbye Failure JobOrder JobCancel ReturnStored "
            "OutputStored EventStored PillarReply PeerReply KeyRotate KeyTaken"
        ).split()
    ),
    ("bulk", "master"): frozenset(
        "ManifestRequest ChunkRequest FilesRequest ReturnPart FilePush".split()
    ),
    ("bulk", "minion"): frozenset(
        "ManifestReply ChunkReply FilesReply FileStored ReturnStored Failure".split()
    ),
    ("local", "master"): frozenset("ClientRequest ClientStop".split()),
    ("local", "client"): frozenset("ClientItem ClientItems ClientReply Failure".split()),
    # Job processes and `catena call` to the daemon of their host, which relays to the master.
    ("local", "minion"): frozenset(
        (
            "ClientRequest ClientStop PillarRequest PeerRequest ManifestRequest ChunkRequest "
            "FilesRequest EventFired GrainsUpdate JobProgressed JobOutput FilePush"
        ).split()
    ),
    ("local", "job"): frozenset(
        (
            "ClientItem ClientReply Failure PillarReply PeerReply ManifestReply ChunkReply "
            "FilesReply FileStored EventStored"
        ).split()
    ),
}


#: Name of a record -> the record.
record = LazyRecords(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    return record(name)


@dataclass(frozen=True)
class Envelope:
    """A message with its header."""

    #: 16 random bytes.
    msg_id: bytes
    #: msg_id of the message that this answers, or 16 zero bytes.
    reply_to: bytes
    message: Any
    #: Version byte.
    version: int = 1
    #: The encoded body, for a receiver that forwards it; otherwise b"".
    body: Any = field(default=b"", repr=False, compare=False)
