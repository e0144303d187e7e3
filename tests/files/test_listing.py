"""Tests of the listing of inputs: patterns, links and hidden files.

Patterns are those of Beam. Links are followed, or are an error.
"""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

import pytest
from apache_beam.io.filesystem import FileSystem
from apache_beam.io.filesystems import FileSystems
from hypothesis import assume, example, given
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.files.beam import files, listing
from beam_pipelines.files.beam.input_roots import OutsideRootError, only_below
from beam_pipelines.files.beam.listing import Listed

NAMES = st.sampled_from(["a", "b", "ab.csv", "b.csv", "a[1]", "x*"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(tuple)
WILDCARDS = st.sampled_from(
    ["*", "**", "?", "a*", "*.csv", "[ab]", "[!a]", "[ab]*", "**.csv", "a**"]
)
PATTERNS = st.lists(st.one_of(WILDCARDS, NAMES), min_size=1, max_size=4).map("/".join)


def listed(folder: Path, pattern: str) -> list[str]:
    """Returns the paths in a folder that match a pattern.

    Paths are relative to the folder.
    """
    return [
        os.path.relpath(file.path, folder) for file in listing.list_files(f"{folder}/{pattern}")
    ]


def make(folder: Path, *paths: str) -> None:
    """Makes files; ``a -> b`` is a link."""
    for path in paths:
        name, _, target = path.partition(" -> ")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if target:
            (folder / name).symlink_to(target)
        else:
            (folder / name).write_text("a\n1\n")


@example(tree=[("a", "b.csv")], pattern="a?b.csv")
@example(tree=[("a", "b.csv")], pattern="a[!x]b.csv")
@example(tree=[("a", "b", "b.csv")], pattern="a**.csv")
@given(tree=st.lists(PATHS, max_size=8), pattern=PATTERNS)
def test_without_links_as_beam(tmp_path_factory, tree, pattern):
    """Without links, a pattern matches the files that Beam finds.

    The order is the same, too.
    """
    folder = tmp_path_factory.mktemp("tree")
    for path in tree:
        parent = folder.joinpath(*path[:-1])
        if all(one.is_dir() or not one.exists() for one in (parent, *parent.parents)):
            parent.mkdir(parents=True, exist_ok=True)
            if not parent.joinpath(path[-1]).exists():
                parent.joinpath(path[-1]).write_bytes(b"x" * len(path))
    assume(not os.path.isfile(folder / pattern))  # which is the file, for us
    expected = [
        Listed(one.path, one.size_in_bytes, one.last_updated_in_seconds)
        for one in FileSystems.match([f"{folder}/{pattern}"])[0].metadata_list
        if not os.path.isdir(one.path)
    ]
    assert listing.list_files(f"{folder}/{pattern}") == sorted(expected)


@given(
    tree=st.lists(PATHS, min_size=1, max_size=6),
    links=st.lists(st.tuples(PATHS, PATHS), max_size=3),
    pattern=PATTERNS.filter(lambda pattern: not any(sign in pattern for sign in ("?", "[", "**"))),
)
def test_with_links_as_the_shell(tmp_path_factory, tree, links, pattern):
    """With links, a pattern matches the files that ``glob`` finds.

    A shell finds the same files.
    """
    folder, other = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("other")
    for number, path in enumerate(tree):
        top = (folder, other)[number % 2]
        parent = top.joinpath(*path[:-1])
        if all(one.is_dir() or not one.exists() for one in (parent, *parent.parents)):
            parent.mkdir(parents=True, exist_ok=True)
            if not parent.joinpath(path[-1]).exists():
                parent.joinpath(path[-1]).write_bytes(b"x")
    linked = set()
    for path, target in links:
        place, there = folder.joinpath(*path), other.joinpath(*target)
        is_new = not any(
            there in one.parents or one in there.parents or one == there for one in linked
        )
        if place.parent.is_dir() and not place.exists() and there.exists() and is_new:
            place.symlink_to(there)
            linked.add(there)
    expected = [path for path in glob.glob(f"{folder}/{pattern}") if os.path.isfile(path)]
    assert [file.path for file in listing.list_files(f"{folder}/{pattern}")] == sorted(expected)


def names_below(folder: str, depth: int) -> list[str]:
    """Returns the names of files to a depth, with links followed."""
    names = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            names.append(name)
        elif depth > 1:
            names += [f"{name}/{below}" for below in names_below(path, depth - 1)]
    return names


@example(folders=["a", "a/b"], entries=["a/b/x.csv"], links=[("b", "a")], pattern="**/*.csv")
@example(folders=["a", "a/b"], entries=["a/b/x.csv"], links=[("a/b/b", "")], pattern="*/*/*/**")
@given(
    folders=st.sampled_from([["a"], ["a", "b"], ["a", "a/b"], ["a", "b", "b/a"]]),
    entries=st.lists(st.sampled_from(["x.csv", "a/x.csv", "b/x.csv", "a/b/x.csv"]), max_size=3),
    links=st.lists(
        st.tuples(
            st.sampled_from(["b", "ab", "a/b", "a/ab", "a/b/b"]),
            st.sampled_from(["", "a", "b", "a/b"]),
        ),
        max_size=2,
    ),
    pattern=PATTERNS,
)
def test_names_of_linked_folders(tmp_path_factory, folders, entries, links, pattern):
    """All matches are found, unless a file has two of them.

    The oracle enumerates all names to a depth that ends no cycle too early.
    """
    folder = tmp_path_factory.mktemp("tree")
    for name in folders:
        (folder / name).mkdir()
    for name in entries:
        if (folder / name).parent.is_dir():
            (folder / name).touch()
    for name, target in links:
        if (folder / name).parent.is_dir() and not os.path.lexists(folder / name):
            (folder / name).symlink_to(folder / target)
    match = re.compile(FileSystem.translate_pattern(pattern)).match
    for link in folder.rglob("*"):
        if not link.exists():
            link.unlink()
    if (folder / pattern).exists():
        return
    matches = [name for name in names_below(str(folder), 10) if match(name)]
    files_of = [os.path.realpath(folder / name) for name in matches]
    if len(set(files_of)) < len(files_of):
        with pytest.raises(DataError, match="again, through a link"):
            listed(folder, pattern)
    else:
        assert listed(folder, pattern) == sorted(matches)


LINKED = {
    "linked folder": (["a/x.csv", "data/b -> ../a"], "data/*/*.csv", ["data/b/x.csv"]),
    "linked folder between": (["a/c/x.csv", "data/b -> ../a"], "data/*/c/*", ["data/b/c/x.csv"]),
    "folder and a linked one": (["b/x.csv", "data/a/x.csv", "data/b -> ../b"], "data/*/*.csv", ["data/a/x.csv", "data/b/x.csv"]),
    "recursive": (["b/c/x.csv", "data/b -> ../b"], "data/**", ["data/b/c/x.csv"]),
    "linked top": (["b/x.csv", "data -> b"], "data/*", ["data/x.csv"]),
    "link to a link": (["b/x.csv", "c -> b", "data/d -> ../c"], "data/*/*", ["data/d/x.csv"]),
    "linked file": (["x.csv", "data/y.csv -> ../x.csv"], "data/*", ["data/y.csv"]),
    "linked file by name": (["x.csv", "data/y.csv -> ../x.csv"], "data/y.csv", ["data/y.csv"]),
    "a file linked twice": (["x.csv", "y.csv -> x.csv"], "*.csv", ["x.csv", "y.csv"]),
    "a link that is not entered": (["x.csv", "loop -> ."], "*.csv", ["x.csv"]),
    "a dangling link that is not matched": (["x.csv", "y.txt -> gone"], "*.csv", ["x.csv"]),
    "a link to a file in the place of a folder": (["x.csv", "a -> x.csv"], "a/*", []),
    "a folder that is matched": (["a/x.csv", "b -> a"], "*", []),
    "an alias without matches": (["lib/x.py", "lib64 -> lib", "d/y.csv"], "**.csv", ["d/y.csv"]),
    "an alias without matches below": (["v/lib/p/x.py", "v/lib64 -> lib", "d/y.csv"], "**/*.csv", ["d/y.csv"]),
    "a cycle without matches": (["a/up -> ..", "a/b -> .", "a/x"], "**.csv", []),
    "a cycle that matches once": (["a/up -> ..", "x.csv"], "*/*/*.csv", ["a/up/x.csv"]),
    "an alias that matches other files": (["a/xy.csv", "a/y.csv", "ab -> a"], "a??y.csv", ["a/xy.csv", "ab/y.csv"]),
    "a link to no file in the place of a folder": (["d/x/y.csv", "d/notes.txt -> gone"], "d/*/*.csv", ["d/x/y.csv"]),
    "a link to no file below": (["a/x.csv", "a/b.txt -> gone"], "**.csv", ["a/x.csv"]),
    "a link to nothing that is not entered": (["x.csv", "b -> gone"], "*.csv", ["x.csv"]),
    "a link to nothing too far below": (["a/x.csv", "a/b -> gone"], "*/*.csv", ["a/x.csv"]),
    "a lock of Emacs": (["e/1.csv", "e/.#1.csv -> me@host.1234:1700"], "e/*.csv", ["e/1.csv"]),
}  # fmt: skip


@pytest.mark.parametrize("case", LINKED)
def test_links(tmp_path: Path, case: str) -> None:
    """A link counts as what it leads to, under the link's name."""
    paths, pattern, expected = LINKED[case]
    make(tmp_path, *paths)
    assert listed(tmp_path, pattern) == expected


IMAGES = {
    "a link to nothing that is no image": (["p/x.jpg", "p/notes.txt -> gone"], ["p/x.jpg"]),
    "an alias without images": (["p/a/x.JPG", "p/d/r.md", "p/e -> d"], ["p/a/x.JPG"]),
    "a linked class": (["d/x.png", "p/cats -> ../d"], ["p/cats/x.png"]),
    "an image that is gone": (["p/x.jpg", "p/y.jpg -> gone"], r"y\.jpg: found a link to gone"),
    "a class that is gone": (["p/a/x.jpg", "p/b -> gone"], r"p/b: found a link to gone"),
    "a class with two names": (["p/a/x.jpg", "p/b -> a"], r"p/b: found the folder .*/a again"),
}


@pytest.mark.parametrize("case", IMAGES)
def test_links_in_a_folder_of_images(tmp_path: Path, case: str) -> None:
    """Images count, and links that may have led to some."""
    paths, expected = IMAGES[case]
    make(tmp_path, *paths)
    suffixes = (".jpg", ".png")
    if isinstance(expected, str):
        with pytest.raises(DataError, match=expected):
            listing.list_files(f"{tmp_path}/p/**", suffixes=suffixes)
        return
    found = listing.list_files(f"{tmp_path}/p/**", suffixes=suffixes)
    assert [os.path.relpath(one.path, tmp_path) for one in found] == expected


WRONG = {
    "dangling": (["x.csv", "y.csv -> gone.csv"], "*.csv", r"y\.csv: found a link to gone\.csv"),
    "dangling by name": (["y.csv -> gone.csv"], "y.csv", r"y\.csv: found a link to gone\.csv"),
    "dangling below": (["a/b -> gone"], "**", r"a/b: found a link to gone"),
    "dangling top": (["data -> gone"], "data/*.csv", r"data: found a link to gone"),
    "dangling in the place of a folder": (["d/x/y.csv", "d/b -> gone"], "d/*/*.csv", r"d/b: found a link to gone, which leads to nothing"),
    "dangling in the place of a folder above": (["d/x/c/y.csv", "d/b -> gone"], "d/*/c/*.csv", r"d/b: found a link to gone"),
    "dangling where any folder may be": (["a/x.csv", "a/b -> gone"], "**.csv", "a/b: found a link"),
    "dangling of a number": (["a/x.csv", "2024.01 -> gone"], "*/*.csv", r"2024\.01: found a link"),
    "to itself in the place of a folder": (["a/x.csv", "b -> b"], "*/*.csv", "b: found a link"),
    "to itself": (["b -> b"], "*", r"b: found a link to b, which leads to nothing"),
    "cycle": (["a/x.csv", "a/up -> .."], "**", r"a/up: found the folder .* again, through a link"),
    "cycle of two": (["a/b -> ../c", "c/d -> ../a", "c/x"], "**", r"found the folder .* again"),
    "cycle with a match far below": (["a/b -> .", "a/c/d/x.csv"], "**.csv",
        r"a/b: found the folder .*/a again, .* once, as \S*/a/c/d/x\.csv would be read twice"),
    "cycle above a match": (["x.csv", "a/up -> .."], "**.csv", r"a/up: found the folder .* again"),
    "alias": (["1/x.csv", "latest -> 1"], "*/*.csv", r"latest: found the folder .*/1 again"),
    "alias of a folder above": (["2/b/x.csv", "latest -> 2"], "**/*.csv",
        r"latest: found the folder .*/2 again, .* as \S*/2/b/x\.csv would be read twice"),
    "alias at another depth": (["a/y/x.csv", "b -> a/y"], "**/x.csv", r"b: found the folder .*/a/y again, through a link"),
    "pipe": (["a/x.csv"], "*/*", r"a/pipe: found a pipe"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_links_that_are_errors(tmp_path: Path, case: str) -> None:
    """A link to nothing, or to a folder again, is an error.

    The error names the link. A pipe is an error, too.
    """
    paths, pattern, message = WRONG[case]
    make(tmp_path, *paths)
    if case == "pipe":
        os.mkfifo(tmp_path / "a" / "pipe")
    with pytest.raises(DataError, match=message):
        listed(tmp_path, pattern)


SPARK = [
    "_SUCCESS", ".part-0.csv.crc", "part-0.csv", "_temporary/0/part-1.csv", ".git/x.csv",
    "_x=1/part-0.csv", "x=2/part-0.csv", "x=2/_SUCCESS", "lost+found/y.csv", "_old/_a/z.csv",
]  # fmt: skip
HIDDEN = {
    "*": ["part-0.csv"],
    "?part*": [],
    "**": ["_x=1/part-0.csv", "part-0.csv", "x=2/part-0.csv"],
    "*/*": ["_x=1/part-0.csv", "x=2/part-0.csv"],
    "**.csv": ["_x=1/part-0.csv", "part-0.csv", "x=2/part-0.csv"],
    "_*": ["_SUCCESS"],
    ".*": [".part-0.csv.crc"],
    "_*/*/*": ["_temporary/0/part-1.csv"],
    "_*/_*/*": ["_old/_a/z.csv"],
    "[_]*": [],
    "_temporary/**": ["_temporary/0/part-1.csv"],
    "_old/*/*": [],
    "_old/_a/*": ["_old/_a/z.csv"],
    "*/_SUCCESS": ["x=2/_SUCCESS"],
    "**/_SUCCESS": ["x=2/_SUCCESS"],
    "_SUCCESS": ["_SUCCESS"],
    "_temporary/0/part-1.csv": ["_temporary/0/part-1.csv"],
    "l*/*": ["lost+found/y.csv"],
}


@pytest.mark.parametrize("pattern", HIDDEN)
@pytest.mark.parametrize("is_remote", [False, True])
def test_hidden_files(tmp_path, monkeypatch, pattern, is_remote):
    """Wildcards match no hidden files or markers, in any storage.

    They match no files in hidden folders either. A pattern that has the sign ``.`` or ``_`` in the
    same place matches them.
    """
    make(tmp_path, *SPARK)
    if is_remote:
        monkeypatch.setattr(files, "is_local", lambda path: not path.startswith("s3://"))
        monkeypatch.setattr(
            listing,
            "_list_remote",
            lambda url: [
                Listed(f"s3://bucket/{name}", 1, 0)
                for name in sorted(SPARK)
                if re.match(FileSystem.translate_pattern(url), f"s3://bucket/{name}")
            ],
        )
        found = [file.path[12:] for file in listing.list_files(f"s3://bucket/{pattern}")]
    else:
        found = listed(tmp_path, pattern)
    assert found == HIDDEN[pattern]


def test_links_and_pipes_that_are_hidden(tmp_path: Path) -> None:
    """Hidden links and pipes, such as locks of editors, are ignored."""
    make(tmp_path, "x.csv", ".#x.csv -> me@host.1", "_loop -> .")
    os.mkfifo(tmp_path / "_pipe")
    assert listed(tmp_path, "**") == ["x.csv"]


def test_only_matching_folders_are_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The listing enters only folders that the pattern matches.

    A link to a large tree elsewhere costs nothing.
    """
    make(tmp_path, "a/1/2/3/x", "b/x.csv", "c -> /")
    entered = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: entered.append(path) or scan(path))
    assert listed(tmp_path, "[ab]/*.csv") == ["b/x.csv"]
    assert sorted(os.path.relpath(path, tmp_path) for path in entered) == [".", "a", "b"]


def test_a_folder_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that cannot be listed is named; Beam passes over it."""
    make(tmp_path, "a/x.csv", "b/x.csv")
    scan = os.scandir

    def refuse(path: str) -> object:
        if path.rstrip("/").endswith("/b"):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DataError, match=r"/b/?: cannot be listed: Permission denied\. Check its"):
        listed(tmp_path, "*/*.csv")


@pytest.mark.parametrize("target", ["../out", "../out/gone", "/dev"])
def test_links_out_of_the_root(tmp_path: Path, target: str) -> None:
    """A link out of ``--input_root`` is refused.

    It matches the pattern, or leads to a folder in which a file could match.
    """
    make(tmp_path, "out/x.csv", "data/a/x.csv", f"data/b -> {target}")
    with only_below([str(tmp_path / "data")]):
        if target == "../out/gone":
            assert listed(tmp_path, "data/*/*.csv") == ["data/a/x.csv"]
        else:
            with pytest.raises(OutsideRootError):
                listed(tmp_path, "data/*/*.csv")
        with pytest.raises(OutsideRootError):
            listed(tmp_path, "data/**")
        assert listed(tmp_path, "data/a/*.csv") == ["data/a/x.csv"]
    if target == "../out":
        with only_below([str(tmp_path)]):
            assert listed(tmp_path, "data/*/*.csv") == ["data/a/x.csv", "data/b/x.csv"]


def test_links_out_of_the_root_that_cannot_match(tmp_path: Path) -> None:
    """A link to a file is ignored in place of a folder."""
    make(tmp_path, "hostname", "d/a/x.csv", "d/notes -> ../hostname")
    with only_below([str(tmp_path / "d")]):
        assert listed(tmp_path, "d/*/*.csv") == ["d/a/x.csv"]


@pytest.mark.parametrize("pattern", ["*/*.csv", "**.csv", "./*/*.csv", "d?/x.csv"])
def test_relative_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    """Paths begin as the pattern does."""
    make(tmp_path, "d1/x.csv")
    monkeypatch.chdir(tmp_path)
    expected = ("./" if pattern.startswith(".") else "") + "d1/x.csv"
    assert [file.path for file in listing.list_files(pattern)] == [expected]


def test_existence(tmp_path: Path) -> None:
    """An optional file may be missing.

    A link to nothing in its place is an error.
    """
    make(tmp_path, "x", "y -> x", "z -> gone")
    assert listing.exists(str(tmp_path / "x"))
    assert listing.exists(str(tmp_path / "y"))
    assert not listing.exists(str(tmp_path / "gone"))
    with pytest.raises(DataError, match=r"z: found a link to gone, which leads to nothing"):
        listing.exists(str(tmp_path / "z"))
