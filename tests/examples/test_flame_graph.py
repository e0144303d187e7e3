"""``benchmarks/flame_graph.py`` draws samples by step."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SAMPLES = """\
process 1:"beam";run (threading.py:1);process (beam_pipelines/transforms/spill.py:9);write (x.py:1) 30
process 1:"beam";prepare (beam_pipelines/transforms/write.py:7);native::deflate (_kernels.abi3.so) 60
process 1:"beam";_find_and_load (<frozen importlib._bootstrap>:7) 10
process 1:"beam";work (beam_pipelines/transforms/write.py:7);PyThread_acquire_lock (python) 900
"""


def test_boxes_are_shares_of_the_samples(repository: Path, tmp_path: Path) -> None:
    """Threads that wait are left out."""
    samples, picture = tmp_path / "samples.txt", tmp_path / "picture.svg"
    samples.write_text(SAMPLES)
    command = [sys.executable, str(repository / "benchmarks" / "flame_graph.py"), samples, picture]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert [line.split(maxsplit=1) for line in done.stdout.splitlines()] == [
        ["60.0%", "serialize, compress, write"],
        ["30.0%", "spill, load"],
        ["10.0%", "imports"],
    ]
    titles = re.findall("<title>(.*?)</title>", picture.read_text())
    assert "C++ deflate: 60.0%" in titles
    assert "write.prepare: 60.0%" in titles
