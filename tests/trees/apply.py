"""Apply formulas to booted Debian systems, three times each.

The first run has to succeed and change something, the second has to change nothing, and the third,
in test mode, has to report nothing. Each formula gets a system of its own: an overlay over a
Debian 12 root, booted in namespaces, with no network but the package archive of this machine's
apt. By hand, as root, because it loads hundreds of packages:

    make trees-applied FORMULAS=~/formulas                  # every NAME-formula of the list
    make trees-applied FORMULAS=~/formulas NAMES="ntp vim"

The results lie in build/trees: NAME.json for each formula, and table.md for all of them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import yaml

from tests.support import debian_making
from tests.support.booted import Booted, booted_from
from tests.support.debian_roots import Root, base, mounted
from tests.support.newer_wheel import built_wheel
from tests.trees import formulas
from tests.trees.formulas import Formula
from tests.trees.relay import PORT, archive_hosts, relay
from tests.trees.verdict import Run, Verdict, as_json, from_json, parse, table

REPOSITORY = Path(__file__).parents[2]
SUITE, LAYER = "bookworm", "bookworm-trees"
#: Seconds that one run may take; it loads packages.
DEADLINE = 900
#: Lines of trouble that are printed per formula; the table has all.
SHOWN = 5
#: Where catena and its dependencies lie on the host.
INSTALLED = "/opt/catena"
CONFIG = "/etc/catena-trees"
_CALL = (
    "env", f"PYTHONPATH={INSTALLED}", "LC_ALL=C.UTF-8", "nice", "python3", "-m", "catena",
    "call", "--local", "--config-dir", CONFIG, "--out", "json",
)  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Apply the formulas that the command line names; return the exit code."""
    options = _options(argv)
    listed = formulas.read()
    names = options.names or [n for n in listed if (options.folder / f"{n}-formula").is_dir()]
    unknown = [name for name in names if not (options.folder / f"{name}-formula").is_dir()]
    if unknown or not names:
        print(f"{options.folder} has no {unknown[0] if unknown else 'NAME'}-formula")
        return 2
    if debian_making.missing():
        print(debian_making.missing())
        return 2
    debian_making.make([SUITE, LAYER], lambda line: print(line, flush=True))
    options.out.mkdir(parents=True, exist_ok=True)
    _apply_all([listed.get(name) or Formula(name, (name,)) for name in names], options)
    verdicts = [from_json(path.read_text("utf-8")) for path in sorted(options.out.glob("*.json"))]
    (options.out / "table.md").write_text(table(verdicts), encoding="utf-8")
    print(f"table: {options.out / 'table.md'}")
    return 0 if all(verdict.applied for verdict in verdicts) else 1


def _apply_all(wanted: Sequence[Formula], options: argparse.Namespace) -> None:
    """Apply formulas one after the other; write and print what each came to."""
    with tempfile.TemporaryDirectory(prefix="catena-trees-", dir=options.scratch) as scratch:
        prepared = _prepare(Path(scratch))
        for formula in wanted:
            verdict = _apply(formula, options.folder, Path(scratch), prepared)
            (options.out / f"{formula.name}.json").write_text(as_json(verdict), encoding="utf-8")
            print(f"{formula.name}: {' / '.join(run.summary for run in verdict.runs)}", flush=True)
            for line in verdict.trouble[:SHOWN]:
                print(f"    {line}", flush=True)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.trees.apply")
    parser.add_argument("folder", type=Path, help="folder with checkouts NAME-formula")
    parser.add_argument("names", nargs="*", help="only these formulas")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "build/trees")
    parser.add_argument("--scratch", type=Path, default=Path("/var/tmp"), help="for the overlays")
    return parser.parse_args(argv)


def _prepare(scratch: Path) -> list[Path]:
    """Return the layers that all hosts share: catena and the package lists, packages, Debian."""
    below = [base(LAYER), base(SUITE)]
    own = scratch / "prepared"
    with mounted(own, below, entered=True) as root:
        _copy_sources(root)
        shutil.rmtree(root.path / "etc/resolv.conf", ignore_errors=True)
        (root.path / "etc/resolv.conf").unlink(missing_ok=True)
        shutil.copy("/etc/resolv.conf", root.path / "etc/resolv.conf")
        root.run("apt-get", "-q", "update")
        (root.path / "etc/resolv.conf").unlink()
        root.write(
            "/etc/apt/apt.conf.d/99relay",
            f'Acquire::http::Proxy "http://127.0.0.1:{PORT}";\n'
            f'Acquire::https::Proxy "http://127.0.0.1:{PORT}";\n',
        )
        _install(scratch, root)
    return [own / "upper", *below]


def _copy_sources(root: Root) -> None:
    """Give *root* the package sources of this machine, but no credentials for them."""
    for name in ("sources.list", "sources.list.d", "keyrings", "trusted.gpg.d"):
        source, target = Path("/etc/apt") / name, root.path / "etc/apt" / name
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        elif source.exists():
            shutil.copy(source, target)
        elif target.is_file():
            target.unlink()


def _install(scratch: Path, root: Root) -> None:
    """Install a wheel of this checkout and what it depends on; Debian 12 has Python 3.11."""
    wheel = built_wheel(scratch)
    target = root.path / INSTALLED.lstrip("/")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:",
         "--python-version=3.11", f"--target={target}", str(wheel)],
        check=True,
    )  # fmt: skip


def _apply(formula: Formula, folder: Path, scratch: Path, layers: Sequence[Path]) -> Verdict:
    """Boot a system, apply the formula three times, remove the system."""
    own = scratch / formula.name
    try:
        with mounted(own, layers, entered=False) as root:
            _configure(root, formula, folder)
            with (
                booted_from(root, scratch / f"{formula.name}.log") as host,
                relay(host.leader, archive_hosts()),
            ):
                runs = _three_runs(host, formula)
    finally:
        debian_making.remove(own)
    return Verdict(formula.name, runs, formula.needs, formula.repeats)


def _configure(root: Root, formula: Formula, folder: Path) -> None:
    """Write the minion's configuration, the states and the pillar of *formula*."""
    roots = [f"/srv/formulas/{name}-formula" for name in (formula.name, *formula.beside)]
    for path in roots:
        shutil.copytree(
            folder / Path(path).name, root.path / path.lstrip("/"),
            symlinks=True, ignore=shutil.ignore_patterns(".git"),
        )  # fmt: skip
    settings = {
        "id": "host",
        "file_roots": {"base": roots},
        "pillar_roots": {"base": ["/srv/pillar"]},
        "pillar_source_merging_strategy": "recurse",
    }
    root.write(f"{CONFIG}/minion", yaml.safe_dump(settings))
    parts = []
    example = folder / f"{formula.name}-formula/pillar.example"
    if formula.example and example.exists():
        root.write("/srv/pillar/example.sls", formula.edited(example.read_text("utf-8")))
        parts.append("example")
    if formula.pillar:
        root.write("/srv/pillar/own.sls", yaml.safe_dump(dict(formula.pillar)))
        parts.append("own")
    root.write("/srv/pillar/top.sls", yaml.safe_dump({"base": {"*": parts}} if parts else {}))
    root.write("/etc/hostname", "host\n")
    root.write("/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 host.example.org host\n")


def _three_runs(host: Booted, formula: Formula) -> tuple[Run, ...]:
    for command in formula.commands:
        done = host.cmd_run_all(("sh", "-ec", command), timeout=DEADLINE)
        if done["retcode"]:
            return (Run(error=f"{command}: {done['stderr'] or done['stdout']}"),)
    host.cmd_run_all((*_CALL, "saltutil.sync_all"), timeout=DEADLINE)
    runs: list[Run] = []
    for more in ((), (), ("test=True",)):
        runs.append(_one_run(host, (*_CALL, "state.apply", ",".join(formula.sls), *more)))
        if runs[-1].error:
            break
    return tuple(runs)


def _one_run(host: Booted, argv: Sequence[str]) -> Run:
    began = time.monotonic()
    try:
        done = host.cmd_run_all(argv, timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        return Run(error=f"no answer in {DEADLINE} s", seconds=DEADLINE)
    seconds = round(time.monotonic() - began, 1)
    return parse(done["stdout"] or json.dumps({"local": done["stderr"]}), seconds)


if __name__ == "__main__":
    # End by an exception, so that hosts and mounts are removed.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(130))
    sys.exit(main(sys.argv[1:]))
