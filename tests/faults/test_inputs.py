"""Input files that change, shrink, grow or vanish during a run.

The run fails, and its error names the file.
"""

from __future__ import annotations

import shutil

import pytest

from tests.faults.harness import ONE, Workshop, check_clean, check_error, check_next_run, dataset

pytestmark = pytest.mark.faults

CHANGES = ("truncated", "emptied", "appended", "changed", "replaced", "deleted")
# When it happens: as soon as the output's temporary folder is made, and while chunks are being
# kept, when some files were read.
PLANNED, READING = ("_temporary", 0), ("_temporary/kept/", 2)


@pytest.mark.parametrize("when", [PLANNED, READING], ids=["planned", "reading"])
@pytest.mark.parametrize("name", ["visits-0.csv", "visits-3.csv", "users.csv"])
@pytest.mark.parametrize("how", CHANGES)
def test_an_input_file_that_changes(how, name, when, workshop):
    """A changed input file gives no dataset and is named.

    This holds for every file and every change, before the read and after it.
    """
    folder = workshop.place("changing", encodes=False, rows=2_000)
    fault = {
        "at": when[0],
        "number": when[1],
        "changes": True,
        "do": "change_file",
        "arguments": [str(folder / name), how],
    }
    ended = workshop.convert(folder, *ONE, faults=[fault]).wait()
    assert workshop.counted() > when[1], "nothing was changed"
    check_error(ended, name)
    assert not (folder / "out" / "dataset.json").exists()
    check_clean(folder, has_failed=True)


def test_it_works_again_when_the_files_are_back(workshop: Workshop) -> None:
    """The next run succeeds when the files are back.

    It follows such an error.
    """
    folder = workshop.place("back", encodes=False, rows=2_000)
    shutil.copytree(folder, folder / "copy")
    assert workshop.convert(folder, *ONE).wait().status == 0
    expected = dataset(folder / "out")
    fault = {"at": "_temporary/kept/", "number": 1, "changes": True, "do": "change_file"}
    fault["arguments"] = [str(folder / "visits-3.csv"), "truncated"]
    check_error(
        workshop.convert(folder, *ONE, "--overwrite", faults=[fault]).wait(), "visits-3.csv"
    )
    for path in (folder / "copy").glob("*.csv"):
        shutil.copy2(path, folder)
    check_next_run(workshop, folder, expected, *ONE)
