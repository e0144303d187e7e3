"""The splits that the names of files and folders say."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Sequence

from beam_pipelines.sources.images.folder import common_folder

_SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("valid", "validation", "val", "dev", "eval"), "eval"),
    **dict.fromkeys(("test", "testing", "holdout", "unlabeled", "scoring"), "test"),
    **dict.fromkeys(("submission", "submissions"), "submission"),
}


def split_of_name(path: str) -> str:
    """Returns the split that a file's name says: ``train_data.csv``; or ``""``."""
    name = os.path.basename(path).split(".")[0].lower().replace("t10k", "test")  # MNIST
    found = [_SPLITS[word] for word in re.findall("[a-z]+", name) if word in _SPLITS]
    return "submission" if "submission" in found else found[0] if found else ""


def splits_of(paths: Sequence[str]) -> dict[str, str]:
    """Returns the split that each file's path names, or ``""``.

    All files are in the folder that they have in common, so that its name says nothing.
    """
    top = len(common_folder([os.path.dirname(path) for path in paths]).split("/"))
    found = {}
    for path in paths:
        names = [_SPLITS.get(name.lower(), "") for name in path.split("/")[top:-1]]
        found[path] = split_of_name(path) or next(filter(None, reversed(names)), "")
    return found


def split_patterns(paths: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Returns the splits that all files are named after, with patterns."""
    # Sorted: splits are at both ends. Folders may have millions of files without any.
    if "" in splits_of([*paths[:1], *paths[-1:]]).values():
        return ()
    found: dict[str, list[str]] = {"train": []}
    for path, split in splits_of(paths).items():
        found.setdefault(split, []).append(path)
    if "" in found or len(found) < 2 or not found["train"]:
        return ()
    shared = {split: common_folder([*map(os.path.dirname, own)]) for split, own in found.items()}
    patterns = {split: f"*{os.path.normpath(folder)}/*" for split, folder in shared.items()}
    prefix = os.path.commonprefix
    starts = {
        split: prefix([*map(os.path.basename, own)]) + "*" * (len(own) > 1)
        for split, own in found.items()
    }
    is_one_folder = len({*patterns.values()}) < len(found)
    if len({*starts.values()}) == len(found) and (is_one_folder or len(paths) == len(found)):
        patterns = {split: f"*{start}" for split, start in starts.items()}
    fits = (sum(fnmatch.fnmatchcase(path, one) for one in patterns.values()) for path in paths)
    return tuple(patterns.items()) if all(number == 1 for number in fits) else ()
