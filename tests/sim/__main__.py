"""`python -m tests.sim SEED [SEED…]` traces runs; `--seeds N [--from M]` checks many seeds."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time

HASH_SEED = "0"
#: After how many seeds a line of progress is printed.
PROGRESS = 100


def main() -> int:
    """Run worlds; return how the process shall end."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("seed", nargs="*", type=int, help="worlds whose story is told")
    parser.add_argument("--seeds", type=int, default=0, help="how many worlds to try")
    parser.add_argument("--from", dest="first", type=int, default=1, help="the first of them")
    parser.add_argument("--rough", action="store_true", help="rough worlds alone")
    parser.add_argument("--steps", action="store_true", help="tell every step on a disk too")
    parser.add_argument("--calm", action="store_true", help="let nothing befall the world")
    given = parser.parse_args()
    from tests.sim import world

    below = world.folder()
    bad: list[int] = []
    began = time.monotonic()
    try:
        some = range(given.first, given.first + given.seeds)
        if given.rough:
            begin = max(world.ROUGH, given.first) | 1
            some = range(begin, begin + 2 * given.seeds, 2)
        for count, seed in enumerate(given.seed or some):
            if count and count % PROGRESS == 0:
                spent = time.monotonic() - began
                print(f"{count} seeds in {spent:.0f} s, bad: {bad or 'none'}", flush=True)
            outcome = world.run(seed, below, given.steps, not given.calm)
            if given.seed:
                print("\n".join(outcome.trace))
            if outcome.violations:
                bad.append(seed)
                print(f"seed {seed}:", *outcome.violations, sep="\n    ", flush=True)
    finally:
        shutil.rmtree(below, ignore_errors=True)
    if not given.seed:
        spent = time.monotonic() - began
        print(f"{given.seeds} seeds in {spent:.1f} s, bad: {bad or 'none'}")
    return 1 if bad else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        # The order of sets of strings must not depend on the day.
        os.environ["PYTHONHASHSEED"] = HASH_SEED
        os.execv(sys.executable, [sys.executable, "-m", "tests.sim", *sys.argv[1:]])
    sys.exit(main())
