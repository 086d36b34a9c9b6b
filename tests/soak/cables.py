"""A cable from each host to the master: a proxy that can be cut, so that frames are lost."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Mapping

#: Sockets of a master: control, bulk, enrol.
PORTS = 3


class Cables:
    """Proxies on loopback, in a thread with a loop of its own.

    Args:
        ports: first of the three ports of each host's proxy, by name.
        master: first port of the master.
    """

    def __init__(self, ports: Mapping[str, int], master: int) -> None:
        self._ports, self._master = dict(ports), master
        self._whole = {name: threading.Event() for name in ports}
        self._open: dict[str, set[asyncio.StreamWriter]] = {name: set() for name in ports}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cables")

    def __enter__(self) -> Cables:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self, name: str) -> None:
        """Let nothing through any more; both ends think that they are connected."""
        self._whole[name].clear()

    def mend(self, name: str) -> None:
        """Let everything through again, on new connections."""
        self._whole[name].set()
        self._loop.call_soon_threadsafe(self._hang_up, name)

    def _hang_up(self, name: str) -> None:
        for writer in list(self._open[name]):
            writer.close()

    async def _listen(self) -> None:
        for name, first in self._ports.items():
            self._whole[name].set()
            for offset in range(PORTS):
                await asyncio.start_server(
                    lambda r, w, n=name, o=offset: self._serve(n, o, r, w),  # type: ignore[misc]
                    "127.0.0.1",
                    first + offset,
                )

    async def _serve(
        self, name: str, offset: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            there, back = await asyncio.open_connection("127.0.0.1", self._master + offset)
            self._open[name] |= {writer, back}
            await asyncio.gather(self._carry(name, reader, back), self._carry(name, there, writer))
            self._open[name] -= {writer, back}
        writer.close()

    async def _carry(
        self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if self._whole[name].is_set():
                    writer.write(data)
                    await writer.drain()
        writer.close()
