"""storage/files.py: behaviour that the tests of its callers do not show."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from beam_pipelines.storage import file_changes


def test_a_folder_goes_though_others_still_write_into_it(tmp_path: Path) -> None:
    """Files that come and go meanwhile delay it, and leave nothing behind."""
    folder, ended = tmp_path / "busy", threading.Event()
    folder.mkdir()

    def write() -> None:
        for number in range(500):
            try:
                (folder / f"{number}.part").write_bytes(b"x")
                (folder / f"{number}.part").rename(folder / f"{number}")
                time.sleep(0.002)
            except FileNotFoundError:  # the folder, or what was just written, is gone
                if not folder.exists():
                    break
        ended.set()

    thread = threading.Thread(target=write)
    thread.start()
    while not any(folder.iterdir()):
        pass
    file_changes.delete(str(folder))
    thread.join()
    assert ended.is_set()
    assert not folder.exists()
