"""Rows of `call --local`: states that are compiled and run on this host, without a master."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import yaml

from bench import trees
from bench.errors import BenchError
from bench.lab import Lab
from bench.measure import Ran, run
from bench.row import Measure, Row, Sample, Times
from bench.surroundings import environment


def _tree(lab: Lab) -> trees.Tree:
    return lab.once("tree", lambda: trees.write(lab.folder("local")))


def _call(lab: Lab, tool: str, *words: str) -> Ran:
    """Run `catena call --local` or `salt-call --local`."""
    tree = _tree(lab)
    config = lab.folder(f"local-{tool}")
    settings: dict[str, object] = {
        "id": "bench",
        "file_client": "local",
        "root_dir": str(config),
        "file_roots": {"base": [str(tree.states)]},
    }
    if tool == "salt":
        settings |= {
            "enable_gpu_grains": False,
            "enable_fqdns_grains": False,
            "pki_dir": str(config / "pki"),
            "cachedir": str(config / "cache"),
            "log_file": str(config / "log"),
        }
        command: list[str | Path] = [lab.tools.command("salt", "salt-call")]
    else:
        command = [lab.tools.command("catena", "catena"), "call"]
    (config / "minion").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return run([*command, "--local", "--config-dir", config, *words, "--out", "json"],
               environment(), check=False)  # fmt: skip


def _apply(tool: str, sls: str, states: int) -> Measure:
    def measured(lab: Lab) -> Sample:
        ran = _call(lab, tool, "state.apply", sls)
        trees.check_run(ran.out or ran.err, states, 0)
        return Sample(ran.cpu)

    return measured


def _show(tool: str, sls: str, least: int) -> Measure:
    def measured(lab: Lab) -> Sample:
        ran = _call(lab, tool, "state.show_sls", sls)
        trees.check_shown(ran.out or ran.err, least)
        return Sample(ran.cpu)

    return measured


def _both(make: Callable[[str, str, int], Measure], sls: str, count: int) -> dict[str, Measure]:
    return {tool: make(tool, sls, count) for tool in ("catena", "salt")}


# -- files --------------------------------------------------------------------------------


def _empty(lab: Lab) -> None:
    """Create a new folder for the files.

    The old folder stays until the lab ends, because ext4 skips recently freed inodes one by one.
    After some thousand of them, a new file takes ten times as long for every tool.
    """
    target = _tree(lab).target
    target.rename(target.with_name(f"target-{time.monotonic_ns()}"))
    target.mkdir()


def _create(tool: str) -> Measure:
    def measured(lab: Lab) -> Sample:
        _empty(lab)
        ran = _call(lab, tool, "state.apply", "files")
        trees.check_run(ran.out or ran.err, trees.FILES, trees.FILES)
        return Sample(ran.cpu)

    return measured


def _unchanged(tool: str) -> Measure:
    def measured(lab: Lab) -> Sample:
        if len(list(_tree(lab).target.iterdir())) != trees.FILES:
            _create(tool)(lab)
        ran = _call(lab, tool, "state.apply", "files")
        trees.check_run(ran.out or ran.err, trees.FILES, 0)
        return Sample(ran.cpu)

    return measured


def create_floor(lab: Lab) -> Sample:
    """Bare Python writes the files."""
    _empty(lab)
    return _bare_files(lab, trees.FILES)


def unchanged_floor(lab: Lab) -> Sample:
    """Bare Python reads the files."""
    if len(list(_tree(lab).target.iterdir())) != trees.FILES:
        create_floor(lab)
    return _bare_files(lab, 0)


def _bare_files(lab: Lab, changed: int) -> Sample:
    ran = _floor(lab, "files.py", str(_tree(lab).target), str(trees.FILES))
    if int(ran.out) != changed:
        raise BenchError(f"{ran.out} files were written; wanted {changed}")
    return Sample(ran.cpu)


def _floor(lab: Lab, script: str, *words: str) -> Ran:
    path = Path(__file__).parents[1] / "floors" / script
    return run([lab.tools.python("catena"), path, *words], environment())


def _libraries(sls: str, least: int) -> Measure:
    def measured(lab: Lab) -> Sample:
        ran = _floor(lab, "render.py", str(_tree(lab).states / f"{sls}.sls"))
        if int(ran.out) < least:
            raise BenchError(f"{ran.out} ids; wanted {least}")
        return Sample(ran.cpu)

    return measured


def create_pyinfra(lab: Lab) -> Sample:
    """As many files.put of a text, in one deploy."""
    _empty(lab)
    return _put(lab)


def unchanged_pyinfra(lab: Lab) -> Sample:
    """The same again."""
    if len(list(_tree(lab).target.iterdir())) != trees.FILES:
        create_pyinfra(lab)
    return _put(lab)


def _put(lab: Lab) -> Sample:
    target = _tree(lab).target
    sample = _deploy(
        lab,
        "from io import StringIO\n"
        "from pyinfra.operations import files\n"
        f"for number in range({trees.FILES}):\n"
        "    text = StringIO(f'line {number}\\n')\n"
        f"    files.put(src=text, dest=f'{target}/f{{number:04d}}')\n",
    )
    if len(list(target.iterdir())) != trees.FILES:
        raise BenchError("not all files were written")
    return sample


# -- Ansible and pyinfra ------------------------------------------------------------------


def _deploy(lab: Lab, text: str) -> Sample:
    deploy = lab.folder("pyinfra") / "deploy.py"
    deploy.write_text(text, encoding="utf-8")
    command = lab.tools.command("pyinfra", "pyinfra")
    return Sample(run([command, "-y", "@local", deploy], environment()).cpu)


def _shells(count: int) -> Measure:
    def measured(lab: Lab) -> Sample:
        return _deploy(
            lab,
            "from pyinfra.operations import server\n"
            f"for number in range({count}):\n"
            "    server.shell(name=f'nop {number}', commands=['true'])\n",
        )

    return measured


def _plays(count: int) -> Measure:
    def measured(lab: Lab) -> Sample:
        task = {"name": "nop", "ansible.builtin.debug": {"msg": "nop"}}
        play = {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "tasks": [{**task, "name": f"nop {number}"} for number in range(count)],
        }
        book = lab.folder("ansible") / "play.yml"
        book.write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")
        command = lab.tools.command("ansible", "ansible-playbook")
        ran = run([command, "-i", "localhost,", book], environment())
        if f"ok={count} " not in ran.out:
            raise BenchError(f"not all tasks are well: {ran.out[-200:]}")
        return Sample(ran.cpu)

    return measured


ROWS = (
    Row(
        name="local-1",
        title="`call --local`, state.apply, 1 no-op",
        unit="s CPU",
        tools={**_both(_apply, "nop1", 1), "ansible": _plays(1), "pyinfra": _shells(1)},
        aim=Times(6),
        quick=3,
        note="Ansible: debug tasks; pyinfra: `true` in a shell, in this row and the next",
    ),
    Row(
        name="local-1000",
        title="the same, 1,000 no-ops",
        unit="s CPU",
        tools={**_both(_apply, "nop1000", 1000), "ansible": _plays(1000),
               "pyinfra": _shells(1000)},
        aim=Times(4),
        quick=2,
        fewer={"ansible": 1, "pyinfra": 1},
    ),
    Row(
        name="local-10000",
        title="the same, 10,000 no-ops",
        unit="s CPU",
        tools=_both(_apply, "nop10000", 10_000),
        aim=Times(4),
        repeats=3,
        quick=1,
    ),
    Row(
        name="files-create",
        title="1,000 file.managed, created",
        unit="s CPU",
        tools={"catena": _create("catena"), "salt": _create("salt"), "pyinfra": create_pyinfra,
               "floor": create_floor},
        aim=Times(5),
        quick=2,
        fewer={"pyinfra": 1},
    ),
    Row(
        name="files-unchanged",
        title="1,000 file.managed, unchanged",
        unit="s CPU",
        tools={"catena": _unchanged("catena"), "salt": _unchanged("salt"),
               "pyinfra": unchanged_pyinfra, "floor": unchanged_floor},
        aim=Times(8),
        quick=2,
        fewer={"pyinfra": 1},
    ),
    Row(
        name="chained",
        title="300 chained requires",
        unit="s CPU",
        tools=_both(_apply, "chained", trees.CHAINED),
        aim=Times(5),
        quick=2,
    ),
    Row(
        name="jinja-loop",
        title="state.show_sls, Jinja loop of 5,000 states",
        unit="s CPU",
        tools={**_both(_show, "looped", trees.LOOPED),
               "floor": _libraries("looped", trees.LOOPED)},
        aim=Times(4),
        quick=2,
    ),
    Row(
        name="large-sls",
        title="state.show_sls, 1 MB of SLS",
        unit="s CPU",
        tools={**_both(_show, "large", 3000), "floor": _libraries("large", 3000)},
        aim=Times(5),
        repeats=3,
        quick=1,
        note="floor, in this row and the one above: Jinja2 and PyYAML's CSafeLoader alone",
    ),
)  # fmt: skip
