"""Two attempts of a commit in an object store lose nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from beam_pipelines.files.beam import file_changes, files
from tests.pipeline.test_commit import about_to_commit, folder
from tests.support.contents import contents
from tests.support.remote_stores import s3_store

__all__ = ["folder"]

pytestmark = pytest.mark.remote


def overtaken(changed: Callable[..., None], left: list[int], run: Callable[[], object]) -> Any:
    """Returns a change before which, at its turn, another attempt runs."""

    def change(*arguments: Any) -> None:
        left[0] -= 1
        if left[0] == -1:
            run()
        changed(*arguments)

    return change


def test_a_second_attempt_at_any_moment(folder, tmp_path, monkeypatch):
    """Another attempt may end before any change."""
    with s3_store() as store:
        files.use_options(store.options)
        for count in range(0, 200, 2):
            left = [count]
            run = about_to_commit(folder, "older", f"{store.url}/{count}", monkeypatch)
            with monkeypatch.context() as patched:
                for name in ("rename", "delete", "change_version", "_by_connections"):
                    changed = getattr(file_changes, name)
                    patched.setattr(file_changes, name, overtaken(changed, left, run))
                run()
            assert contents(store.download(str(count), tmp_path)) == contents(folder / "new")
            if left[0] >= 0:
                break
        assert count > 10
