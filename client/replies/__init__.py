"""Records of the master's replies and stream items, to which the contracts refer."""

from catena.core.records import LATER

#: Metadata of a field that only some replies have; None means absent.
ABSENT = LATER
