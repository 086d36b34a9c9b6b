"""A custom module of the tests (cache_dir/extmods/modules): jobs that can be watched and held."""

# mypy: ignore-errors

import logging
import os
import pathlib
import signal
import sys
import time


def mark(path, text="x"):
    with pathlib.Path(path).open("a") as stream:
        stream.write(f"{text}\n")
    return text


def hold(path, release, text="x"):
    mark(path, text)
    while not pathlib.Path(release).exists():
        time.sleep(0.01)
    return text


def big(size):
    return "ä" * size


def murmur(text):
    logging.getLogger(__name__).warning(text)
    return True


def flood(size):
    sys.stdout.write("y" * size)
    sys.stdout.flush()
    time.sleep(60)


def stubborn(path):
    """Leave a double-forked child that ignores TERM in a session of its own; then hang."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    between = os.fork()
    if between == 0:
        if os.fork() == 0:
            os.setsid()
            pathlib.Path(path).write_text(str(os.getpid()))
            time.sleep(60)
        os._exit(0)
    os.waitpid(between, 0)
    time.sleep(60)


def vanish():
    os.kill(os.getpid(), signal.SIGKILL)


def leave():
    sys.exit(3)


def pillar_of(key):
    return __pillar__[key]  # noqa: F821


def read_file(path):
    return pathlib.Path(__salt__["cp.cache_file"](f"salt://{path}")).read_text()  # noqa: F821


def say(tag):
    return __salt__["event.send"](tag, {"a": 1})  # noqa: F821


def say_many(tag, count):
    send = __salt__["event.send"]  # noqa: F821
    return all(send(tag, {"number": number}) for number in range(count))
