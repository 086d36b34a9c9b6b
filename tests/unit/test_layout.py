"""setup.cfg lists every package; a wheel lacks the packages that are not listed."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).parents[2]


def setup_cfg() -> ConfigParser:
    config = ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg")
    return config


def test_every_package_is_listed() -> None:
    listed = setup_cfg()["options"]["packages"].split()
    mounts = [entry for entry in (ROOT / "catena").iterdir() if entry.is_symlink()]
    found = {"catena"} | {
        ".".join(["catena", mount.name, *init.parent.relative_to(mount.resolve()).parts])
        for mount in mounts
        for init in mount.resolve().rglob("__init__.py")
    }
    assert listed == sorted(found)


def test_every_mount_leads_to_its_folder() -> None:
    dirs = setup_cfg()["options"]["package_dir"].split("\n")[1:]
    mapped = {name.strip(): folder.strip() for name, folder in (d.split("=") for d in dirs)}
    for name, folder in mapped.items():
        inside = ROOT.joinpath(*name.split("."))
        assert inside.resolve() == (ROOT / folder).resolve()


def test_every_top_level_package_has_its_mount_and_its_mapping() -> None:
    listed = setup_cfg()["options"]["packages"].split()
    top = {name.split(".")[1] for name in listed if name.count(".") == 1}
    mounts = {entry.name for entry in (ROOT / "catena").iterdir() if entry.is_symlink()}
    assert mounts == top


def test_every_python_file_lies_in_a_listed_package() -> None:
    listed = set(setup_cfg()["options"]["packages"].split())
    for mount in (ROOT / "catena").iterdir():
        if not mount.is_symlink():
            continue
        for source in mount.resolve().rglob("*.py"):
            inside = source.parent.relative_to(mount.resolve()).parts
            package = ".".join(["catena", mount.name, *inside])
            assert package in listed or "migrations" in inside, source


def test_migrations_follow_each_other_up_to_the_head() -> None:
    # Two migrations with the same number merge without a conflict, but the master can't start.
    folder = ROOT / "master" / "store" / "migrations" / "versions"
    texts = [path.read_text("utf-8") for path in sorted(folder.glob("r*.py"))]
    found = [re.findall(r'^(?:down_)?revision = (?:"(\d+)"|None)', text, re.M) for text in texts]
    numbers = [f"{number:04d}" for number in range(1, len(texts) + 1)]
    assert found == [[own, before] for own, before in zip(numbers, ["", *numbers], strict=False)]
    head = (ROOT / "master" / "store" / "schema.py").read_text("utf-8")
    assert f'HEAD = "{numbers[-1]}"' in head
