"""Makes all checks that need a GPU, in at most twelve minutes.

They are the tests that need a CUDA device, and bench_gpu.py: a DLRM on 2.4 million rows, twelve
copies of one dataset, and ResNet-50. Without a GPU, tests are skipped, and few rows show that the
rest runs. The machine needs the reader, PyTorch, torchvision, pytest and Pillow:

  python benchmarks/gpu_checks.py .bench/read-200000-hashed .bench/375-400/ours
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import torch

COPIES = 12
SECONDS = 12 * 60
ROOT = pathlib.Path(__file__).resolve().parents[1]
TESTS = ["tests/reader/test_frameworks.py", "tests/adapters/test_device_images.py"]


def main() -> None:
    """Runs the tests, then the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=pathlib.Path, help="a hashed dataset of bench_read.py")
    parser.add_argument("pictures", type=pathlib.Path, help="one of bench_read_images.py")
    arguments = parser.parse_args()
    few = [] if torch.cuda.is_available() else ["--rows", "128", "--repeats", "1"]
    sizes = ["--batch_sizes", *(["64"] if few else ["2048", "8192", "32768"])]
    end = time.monotonic() + SECONDS
    with tempfile.TemporaryDirectory() as folder:
        for number in range(COPIES):
            shutil.copytree(arguments.table, f"{folder}/{number:02}")
        benchmark = [str(ROOT / "benchmarks" / "bench_gpu.py"), f"{folder}/*", *sizes, *few]
        pictures = ["--pictures", str(arguments.pictures.resolve())]
        failed = 0
        for command in (
            ["-m", "pytest", "-q", "-rs", "-m", "adapters or not adapters", *TESTS],
            [*benchmark, *pictures],
        ):
            left = end - time.monotonic()
            done = subprocess.run([sys.executable, *command], cwd=ROOT, timeout=left, check=False)
            failed |= done.returncode
    sys.exit(failed)


if __name__ == "__main__":
    main()
