"""Measures how fast ``Dataset.batches`` reads from an object store.

A server on this machine answers as S3 does, each request after a delay. It gives ranges of the
dataset of ``bench_read.py`` (40 integers, 8 gzip shards). The ways take turns in one process, and
medians count, of ratios to the local copy in the same turn. The server runs on the last core, and
the readers on the others, as a bucket's server is another machine.

  python benchmarks/bench_read_remote.py --dataset .bench/read-200000-hashed
"""

from __future__ import annotations

import argparse
import http.server
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import beam_pipelines as bp

WAYS = ("local", "s3", "https", "s3, empty cache", "s3, full cache")
EPOCHS = 8


class Server(http.server.ThreadingHTTPServer):
    """A server whose answers come late."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, folder: str, delay: float) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.delay = folder, delay


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with ranges of files, without a copy through Python."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        time.sleep(self.server.delay)
        name = self.path.split("?")[0].removeprefix("/bucket/").lstrip("/")
        path = os.path.join(self.server.folder, name)
        if not os.path.isfile(path):
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        total = os.path.getsize(path)
        start, stop = 0, total
        if wanted := self.headers.get("Range"):
            first, last = wanted.removeprefix("bytes=").split("-")
            start, stop = int(first), min(total, int(last) + 1)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{total}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(stop - start))
        self.send_header("Last-Modified", "Mon, 23 Nov 2026 12:00:00 GMT")
        self.end_headers()
        self.wfile.flush()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with open(path, "rb") as file:
            while self.command == "GET" and start < stop:
                start += os.sendfile(self.connection.fileno(), file.fileno(), start, stop - start)


def read(dataset: bp.Dataset, batch_size: int, epochs: int, seed: int) -> tuple[float, float]:
    """Returns wall time and CPU time of a row, in µs."""
    with dataset.batches(batch_size=batch_size, epochs=epochs, seed=seed) as reader:
        wall, cpu = time.perf_counter(), time.process_time()
        rows = sum(len(next(iter(batch.values()))) for batch in reader)
        spent = time.perf_counter() - wall, time.process_time() - cpu
    return 1e6 * spent[0] / rows, 1e6 * spent[1] / rows


def measure(
    folder: str, port: int, repeats: int, batch_size: int
) -> dict[str, list[tuple[float, float]]]:
    """Returns the times of each way."""
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLEKEY000000",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    urls = {"local": folder, "s3": "s3://bucket", "https": f"http://127.0.0.1:{port}"}
    datasets = {way: bp.open(url) for way, url in urls.items()}
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for repeat in range(repeats):
        for way, dataset in datasets.items():
            found[way].append(read(dataset, batch_size, EPOCHS, repeat))
        with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as cache:
            cached = bp.open(urls["s3"], cache=cache)
            found[WAYS[3]].append(read(cached, batch_size, 1, repeat))
            found[WAYS[4]].append(read(cached, batch_size, EPOCHS, repeat))
    return found


def main() -> None:
    """Compares the ways."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", type=pathlib.Path, default=".bench/read-200000-hashed")
    parser.add_argument("--delay", type=float, default=0.02, help="seconds before each answer")
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--batch_size", type=int, default=1024)
    parser.add_argument("--serve", action="store_true", help="only serve, in this process")
    arguments = parser.parse_args()
    folder = str(arguments.dataset.resolve())
    if arguments.serve:
        server = Server(folder, arguments.delay)
        print(server.server_port, flush=True)
        server.serve_forever()
    command = [sys.executable, __file__, "--serve", "--dataset", folder]
    *others, last = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {last})  # processes inherit it
    serving = subprocess.Popen(
        [*command, "--delay", str(arguments.delay)], stdout=subprocess.PIPE, text=True
    )
    os.sched_setaffinity(0, others or {last})
    port = int(serving.stdout.readline()) if serving.stdout else 0
    try:
        found = measure(folder, port, arguments.repeats, arguments.batch_size)
    finally:
        serving.terminate()
    print("| | rows/s | CPU µs/row | rows/s, of local | CPU, times local |")
    print("|---|---:|---:|---:|---:|")
    local = found["local"]
    for way, times in found.items():
        wall, cpu = (statistics.median(values) for values in zip(*times, strict=True))
        pairs = list(zip(times, local, strict=True))
        share = statistics.median(base[0] / own[0] for own, base in pairs)
        more = statistics.median(own[1] / base[1] for own, base in pairs)
        print(f"| {way} | {1e6 / wall:,.0f} | {cpu:.2f} | {share:.0%} | {more:.2f} × |")


if __name__ == "__main__":
    main()
