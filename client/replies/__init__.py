"""What the master answers: the reply and item records that the contracts name."""

from catena.core.records import LATER

#: Metadata of a reply's field that some replies have and others do not: None means absent.
ABSENT = LATER
