"""`make demo`: run an action chain on this machine, in under half a minute.

A master and three minions run as real processes, each with its own keys, configuration and boot
id, in a temporary folder. A chain of six actions with a reboot in the middle runs on them.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fleet import Fleet, FleetError

EXAMPLES = Path(__file__).parents[1]
MINIONS = {
    "web1": {"role": "web"},
    "web2": {"role": "web"},
    "db1": {"role": "db"},
}


def say(text: str) -> None:
    """Print a heading of the demo."""
    print(f"\n\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def build(folder: Path) -> Fleet:
    """Return a fleet that serves the example tree, each host with a root folder of its own."""
    fleet = Fleet(
        folder,
        {name: {**grains, "demo_root": str(folder / "hosts" / name / "root")}
         for name, grains in MINIONS.items()},
        master={
            "file_roots": {"base": [str(EXAMPLES / "states")]},
            "pillar_roots": {"base": [str(EXAMPLES / "pillar")]},
        },
    )  # fmt: skip
    for name in MINIONS:
        (fleet.home(name) / "root").mkdir(parents=True)
    return fleet


def live(fleet: Fleet, *words: str) -> int:
    """Run one catena command with its output on this terminal; return its exit code."""
    print(f"$ catena {shlex.join(words)}", flush=True)
    return subprocess.run(
        [sys.executable, "-m", "catena", "-c", str(fleet.config), *words], check=False
    ).returncode


def show_files(fleet: Fleet) -> None:
    """Print what the chain wrote on each host."""
    say("What the chain wrote:")
    for name in MINIONS:
        root = fleet.home(name) / "root"
        for path in sorted(path for path in root.rglob("*") if path.is_file()):
            print(f"  {name}: /{path.relative_to(root)} ({path.stat().st_size} bytes)")
        boots = (root / "var/log/boots").read_text().splitlines()
        print(f"  {name}: went on in {len(set(boots))} boots of its host")


def story(fleet: Fleet) -> int:
    """Run the demo's commands; return the exit code of the chain."""
    say("A master and three minions come up (real processes, keys and sockets) …")
    fleet.start_master()
    fleet.start_minions()
    fleet.accept_all()
    live(fleet, "key", "list")
    say("A function on all of them:")
    live(fleet, "run", "*", "test.ping")
    say("A chain of six actions, with a reboot in the middle:")
    code = live(fleet, "chain", "apply", str(EXAMPLES / "chain.yaml"), "--watch")
    show_files(fleet)
    return code


EPILOGUE = """
Simulated: the hosts. Each "machine" is a process tree with a root folder below {folder};
its reboot command ends all processes of the tree, writes a new boot id and starts the minion anew.
Packages are installed from examples/states/packages into that root folder, not into this system.
Everything else is the real thing: keys, sockets, rendering, states, the resume file, the reactor.

Next:
  examples/chain.yaml         the chain that ran; `catena chain apply FILE --watch` runs yours
  examples/states, pillar     the Salt tree that it applied
  README.md                   how to run a real master and real minions
"""


def main() -> int:
    """Run the demo and clean up; return its exit code."""
    folder = Path(tempfile.mkdtemp(prefix="catena-demo-"))
    begun = time.monotonic()
    try:
        with build(folder) as fleet:
            code = story(fleet)
        print(EPILOGUE.format(folder=folder))
        print(f"{time.monotonic() - begun:.1f} s; exit code {code}")
        return code
    except FleetError as error:
        print(f"the demo could not run: {error}", file=sys.stderr)
        for log in sorted(folder.rglob("*.log")):
            print(f"--- {log}\n{log.read_text(errors='replace')[-2000:]}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
