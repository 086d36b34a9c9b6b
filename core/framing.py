"""Messages over a byte stream with noise from other programs: markers, frames, proofs.

The master (through `ssh.connect.channel`) and the program on a host reached by SSH share it, so
it uses the standard library only. It does no I/O: bytes in, messages out.

A frame is `length of everything after the head` (4 bytes, big endian), `length of its JSON` (4),
the proof (16), the JSON object, and the blob. The proof is the first half of an HMAC-SHA-256,
keyed by the run's nonce, over the direction, the frame's number in its direction and the rest of
the frame. It detects foreign bytes between frames, and duplicated or missing frames.
"""

from __future__ import annotations

import hmac
import json
import struct
from typing import Any, Dict, Iterator, Mapping, Tuple

from catena.core.errors import LimitError, PeerError

#: Maximum bytes of JSON and blob together.
FRAME_LIMIT = 64 * 1024 * 1024
#: Maximum bytes that a login shell may print before a marker.
NOISE_LIMIT = 256 * 1024
READY, NEED = "catena-ready", "catena-need"

_HEAD = struct.Struct(">II16s")
_PROOF_SIZE = 16

Message = Tuple[Dict[str, Any], bytes]


def marker(word: str, nonce: str) -> bytes:
    """Return the line that announces *word* (READY, NEED)."""
    return f"{word} {nonce}\n".encode("ascii")


class Framer:
    """One side of a framed stream.

    Args:
        nonce: of this run, 64 hex digits.
        master: whether this side is the master.
        limit: maximum bytes of JSON and blob of one frame.
    """

    def __init__(self, nonce: str, *, master: bool, limit: int = FRAME_LIMIT) -> None:
        self._key = bytes.fromhex(nonce)
        self._directions = (b">", b"<") if master else (b"<", b">")
        self._limit = limit
        self._sent = 0
        self._received = 0
        self._buffer = bytearray()

    def encode(self, message: Mapping[str, Any], blob: bytes = b"") -> bytes:
        """Return the next frame.

        Raises:
            LimitError: the frame would exceed the limit.
            TypeError, ValueError: *message* is not JSON data.
        """
        text = json.dumps(message, separators=(",", ":"), allow_nan=True).encode("utf-8")
        if len(text) + len(blob) > self._limit:
            raise LimitError(f"a message of {len(text) + len(blob)} bytes, limit {self._limit}")
        proof = self._proof(self._directions[0], self._sent, len(text), text, blob)
        self._sent += 1
        return b"".join((_HEAD.pack(len(text) + len(blob), len(text), proof), text, blob))

    def feed(self, data: bytes) -> Iterator[Message]:
        """Add bytes of the other side; yield each message that is now complete.

        Raises:
            PeerError: the bytes are not the next frame of this run.
            LimitError: the other side announces a frame above the limit.
        """
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            size, text_size, proof = _HEAD.unpack_from(self._buffer)
            if size > self._limit:
                raise LimitError(f"a message of {size} bytes is announced, limit {self._limit}")
            if text_size > size:
                raise PeerError("a frame whose parts are larger than itself")
            if len(self._buffer) < _HEAD.size + size:
                return
            body = bytes(self._buffer[_HEAD.size : _HEAD.size + size])
            del self._buffer[: _HEAD.size + size]
            yield self._decoded(body[:text_size], body[text_size:], proof)

    def _decoded(self, text: bytes, blob: bytes, proof: bytes) -> Message:
        right = self._proof(self._directions[1], self._received, len(text), text, blob)
        if not hmac.compare_digest(proof, right):
            raise PeerError(
                "bytes between the frames: not a frame of this run, or not in its turn"
            )
        self._received += 1
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            raise PeerError("a frame's content is not JSON") from None
        if not isinstance(message, dict):
            raise PeerError("a frame's content is not a JSON object")
        return message, blob

    def _proof(self, way: bytes, number: int, text_size: int, text: bytes, blob: bytes) -> bytes:
        made = hmac.new(
            self._key, way + struct.pack(">QII", number, text_size, len(blob)), "sha256"
        )
        made.update(text)
        made.update(blob)
        return made.digest()[:_PROOF_SIZE]
