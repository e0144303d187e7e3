"""Full disks, read-only folders and unreadable files give a clean error.

The error is one line, and nothing is left but earlier files.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.faults import harness

pytestmark = pytest.mark.faults

needs_root = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0,
    reason="needs root on Linux: to mount a disk, or to give up root's rights",
)
ENOUGH_KB = 200_000


@pytest.fixture
def disk(workshop: harness.Workshop) -> Iterator[pathlib.Path]:
    """A disk of its own, as small as a test makes it."""
    folder = workshop.place("storage", encodes=False)
    with harness.small_disk(folder, f"{ENOUGH_KB}k") as disk:
        yield disk


def resize(disk: pathlib.Path, options: str) -> None:
    """Mounts a disk again, with other options."""
    subprocess.run(["mount", "-o", f"remount,{options}", disk], check=True)


def convert_on(
    disk: pathlib.Path, workshop: harness.Workshop, *options: str, temporary: str = "temporary"
) -> harness.Ended:
    """Converts into ``out`` on a disk."""
    folder = disk.parent
    arguments = ("convert", "recipe.yaml", "--output", "disk/out", "--quiet", *options)
    return workshop.start(folder, *arguments, temporary=folder / temporary).wait()


@needs_root
@pytest.mark.parametrize("number", harness.moments(20, least=2))
def test_a_disk_that_fills_up(number, disk, workshop, reference):
    """A run on a small disk succeeds or reports too little room.

    This holds for every size. An earlier dataset stays, and the run succeeds with more room.
    """
    rng, expected = harness.random_of("full", number), reference[False]
    needed = (
        sum(path.stat().st_size for path in expected.folder.rglob("*") if path.is_file()) // 1024
    )
    has_earlier = number % 2 == 1
    if has_earlier:
        shutil.copytree(expected.folder, disk / "out")
    resize(disk, f"size={needed * has_earlier + rng.randrange(100, 50_000)}k")
    ended = convert_on(
        disk, workshop, *rng.choice([harness.THREADS, harness.PROCESSES]), "--overwrite"
    )
    is_there = harness.check_all_or_nothing(disk / "out", expected.files)
    if ended.status:
        harness.check_error(
            ended, "disk/out", "No space left on device", "free", "choose another --output"
        )
        assert is_there == has_earlier
    else:
        assert is_there
    resize(disk, f"size={ENOUGH_KB}k")
    again = convert_on(disk, workshop, *harness.THREADS, "--overwrite")
    assert again.status == 0, again.err
    assert harness.check_all_or_nothing(disk / "out", expected.files)
    assert not (disk / "out" / "_temporary").exists()


@needs_root
@pytest.mark.parametrize("has_earlier", [False, True])
def test_a_disk_that_may_not_be_written(has_earlier, disk, workshop, reference):
    """A read-only filesystem is named at once, and an earlier dataset stays."""
    if has_earlier:
        shutil.copytree(reference[False].folder, disk / "out")
    resize(disk, "ro")
    ended = convert_on(disk, workshop, *harness.ONE, "--overwrite")
    harness.check_error(ended, "disk/out", "Read-only file system", "choose another --output")
    assert harness.check_all_or_nothing(disk / "out", reference[False].files) == has_earlier
    harness.check_clean(disk.parent)


@needs_root
@pytest.mark.parametrize("has_earlier", [False, True])
def test_an_output_without_permission(has_earlier, workshop, reference):
    """A read-only output is named with the reason and stays unchanged."""
    folder = workshop.place("closed", encodes=False)
    if has_earlier:
        workshop.fill(folder, reference[False].folder)
    else:
        (folder / "out").mkdir()
    (folder / "out").chmod(0o500)
    ended = workshop.convert(folder, *harness.ONE, "--overwrite", obeys_permissions=True).wait()
    harness.check_error(ended, "out", "Permission denied", "choose another --output")
    assert harness.check_all_or_nothing(folder / "out", reference[False].files) == has_earlier
    (folder / "out").chmod(0o700)
    harness.check_next_run(workshop, folder, reference[False].files)


@needs_root
@pytest.mark.parametrize("part", ["examples", "statistics", "schema"])
def test_a_part_of_a_dataset_without_permission(part, workshop, reference):
    """A dataset with a read-only folder is replaced whole or stays."""
    folder = workshop.place("part", encodes=False)
    workshop.fill(folder, reference[False].folder)
    (folder / "out" / part).chmod(0o500)
    ended = workshop.convert(folder, *harness.ONE, "--overwrite", obeys_permissions=True).wait()
    if ended.status:
        harness.check_error(ended, "Permission denied")
    harness.check_all_or_nothing(folder / "out", reference[False].files)
    for path in folder.joinpath("out").rglob("*"):
        if path.is_dir():
            path.chmod(0o700)
    harness.check_next_run(workshop, folder, reference[False].files)


@needs_root
@pytest.mark.parametrize("name", ["visits-0.csv", "visits-3.csv", "users.csv"])
def test_an_input_without_permission(name: str, workshop: harness.Workshop) -> None:
    """An unreadable input file is named, with the reason."""
    folder = workshop.place("unreadable", encodes=False, rows=2_000)
    (folder / name).chmod(0)
    ended = workshop.convert(folder, *harness.ONE, obeys_permissions=True).wait()
    harness.check_error(ended, name, "Permission denied")
    assert not (folder / "out" / "dataset.json").exists()
    harness.check_clean(folder)


@needs_root
@pytest.mark.parametrize("options", [harness.ONE, harness.PROCESSES], ids=["one", "processes"])
def test_a_temporary_folder_without_permission(options, workshop, reference):
    """A read-only temporary folder of the system is replaced or named.

    Python takes another one and the run succeeds, or the error names it.
    """
    folder = workshop.place("untidy", encodes=False)
    (folder / "temporary").mkdir(mode=0o500)
    ended = workshop.convert(folder, *options, obeys_permissions=True).wait()
    if ended.status:
        harness.check_error(ended, "temporary")
    assert harness.check_all_or_nothing(folder / "out", reference[False].files) == (
        ended.status == 0
    )
    harness.check_clean(folder, has_failed=True)


@needs_root
def test_a_temporary_folder_that_is_full(workshop, reference):
    """A full temporary folder is harmless or named.

    The output is elsewhere.
    """
    folder = workshop.place("small", encodes=False)
    with harness.small_disk(folder, "16k") as disk:
        (disk / "filling").write_bytes(bytes(8192))
        ended = workshop.convert(folder, *harness.PROCESSES, temporary=disk).wait()
        if ended.status:
            harness.check_error(ended, "No space left on device", "disk")
        assert harness.check_all_or_nothing(folder / "out", reference[False].files) == (
            ended.status == 0
        )
        assert [path.name for path in disk.iterdir()] == ["filling"]
