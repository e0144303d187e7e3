"""Runs an example on Dataflow, and writes what shows that it worked.

The file has the job's id, the command, versions, seconds, counters, and the checksums of all
shards next to those of a run on this machine. Users with an account can send it to us:

  make dataflow-proof PROJECT=my-project BUCKET=my-bucket
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError, mask
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.dataset.manifest import read_manifest
from beam_pipelines.files.beam import files

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = 300_000
RECIPE = """
name: proof
sources: {visits: {path: visits.csv}}
encode: {city: vocabulary, seconds: z_score}
label: long
derive: {long: seconds > 300}
split: {train: 0.8, eval: 0.2, by: user}
output: {shard_size: 1MB, shuffle_seed: 5}
"""
# A job's id: the day, the time and a number; and that of the emulated service.
JOB_ID = re.compile(r"\b\d{4}-\d{2}-\d{2}_(?:\d{2}_\d{2}_\d{2}-\d+|dry-run)")
LOG_LINES = 60


def make_example(folder: pathlib.Path, rows: int) -> Manifest:
    """Writes table and recipe to a folder, and converts them here."""
    lines = (f"{n * 7919 % 9973},city {n * 31 % 211},{n * 17 % 907}" for n in range(rows))
    (folder / "visits.csv").write_text("\n".join(["user,city,seconds", *lines]) + "\n")
    (folder / "recipe.yaml").write_text(RECIPE)
    bp.convert(folder / "recipe.yaml", folder / "here")
    return read_manifest(str(folder / "here"))


def run_job(root: str, given: argparse.Namespace, extra: Sequence[str]) -> dict[str, Any]:
    """Runs the example under a URL; returns what is known of it."""
    places = ["--output", f"{root}/out", "--temp", f"{root}/temp", "--project", given.project]
    command = [str(ROOT / "run_dataflow.sh"), f"{root}/recipe.yaml", *places]
    command += ["--region", given.region, "--overwrite", *given.option, "--", "--verbose", *extra]
    begun = time.time()
    ended = subprocess.run(
        command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    found = JOB_ID.search(ended.stdout)
    return {
        "job": found and found[0],
        "project": given.project,
        "region": given.region,
        "command": mask(" ".join(command)),
        "status": ended.returncode,
        "wall_secs": round(time.time() - begun, 1),
        "log": mask(ended.stdout).splitlines()[-LOG_LINES:],
    }


def shards_of(manifest: Manifest) -> dict[str, Any]:
    """Returns path -> rows, bytes and checksum of each shard."""
    return {
        shard.path: {"rows": shard.rows, "bytes": shard.bytes, "crc32c": shard.crc32c}
        for shard in manifest.shards
    }


def collect(root: str, here: Manifest) -> dict[str, Any]:
    """Compares the dataset under a URL with that of this machine."""
    try:
        there = read_manifest(f"{root}/out")
    except DataError as error:
        return {"dataset": str(error), "same_bytes": False}
    counts = {name: n for name, n in vars(there.counts).items() if n}
    found = {"counts": counts, "versions": dict(there.versions), "timings": dict(there.timings)}
    shards, ours = shards_of(there), shards_of(here)
    return {**found, "shards": shards, "shards_here": ours, "same_bytes": shards == ours}


def main(arguments: Sequence[str]) -> int:
    """Runs the example and writes the file.

    Returns:
      0 if Dataflow wrote the bytes of this machine.
    """
    parser = argparse.ArgumentParser(description="Runs an example on Dataflow.")
    parser.add_argument("--project", required=True)
    parser.add_argument("--bucket", required=True, help="For input, output and temporary files.")
    parser.add_argument("--region", default="us-central1")
    parser.add_argument("--file", default="dataflow-proof.json", help="The file to write.")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--option", action="append", default=[], help="Of run_dataflow.sh.")
    parser.add_argument("--collect", action="store_true", help="Of a job that has been submitted.")
    given, extra = parser.parse_known_args(arguments)
    root, target = f"gs://{given.bucket}/beam-pipelines-proof", pathlib.Path(given.file)
    if given.collect and not target.exists():
        parser.error(f"--collect: found no {target}, expected that of a job. Submit one first.")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        here = make_example(folder, given.rows)
        if given.collect:
            job = json.loads(target.read_text())
        else:
            for file in ("visits.csv", "recipe.yaml"):
                files.write_bytes(f"{root}/{file}", (folder / file).read_bytes())
            job = run_job(root, given, [one for one in extra if one != "--"])
        proof = job | collect(root, here)
    target.write_text(json.dumps(proof, indent=1) + "\n")
    verdict = "the same bytes as here" if proof["same_bytes"] else "not (yet) the bytes of here"
    print(f"job {proof['job']}, status {proof['status']}: {verdict}. Send us {target}.")
    return 0 if proof["same_bytes"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
