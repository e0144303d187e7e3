"""Measures how fast ``Dataset.batches`` reads from an object store.

A server on this machine answers as S3 does, each request after a delay. It gives ranges of the
dataset of ``bench_read.py`` (40 integers, 8 gzip shards). Each way reads in a process of its own;
they take turns, and the least times of all repeats count. The server's own CPU time is not counted,
but it takes a core from the reader while it works: on few cores, look at the CPU time.

  python benchmarks/bench_read_remote.py --dataset .bench/read-200000-hashed
"""

from __future__ import annotations

import argparse
import http.server
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import beam_pipelines as bp

WAYS = ("local", "s3", "https", "s3, empty cache", "s3, full cache")
EPOCHS = 4


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


def alone(url: str, cache: str | None, batch_size: int) -> None:
    """Reads some epochs in this process; prints their times a row."""
    dataset = bp.open(url, cache=cache or None)
    for epochs in (1, EPOCHS):
        with dataset.batches(batch_size=batch_size, epochs=epochs) as reader:
            wall, cpu = time.perf_counter(), time.process_time()
            rows = sum(len(next(iter(batch.values()))) for batch in reader)
            spent = time.perf_counter() - wall, time.process_time() - cpu
        if cache and epochs == 1:
            first = tuple(1e6 * secs / rows for secs in spent)
    print(*(1e6 * secs / rows for secs in spent), *(first if cache else ()))


def read(way: str, folder: str, port: int, batch_size: int) -> list[tuple[float, float]]:
    """Measures a way in a process of its own."""
    url = {"local": folder, "https": f"http://127.0.0.1:{port}"}.get(way, "s3://bucket")
    cache = tempfile.mkdtemp(dir=os.path.dirname(folder)) if "cache" in way else ""
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLEKEY000000",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    command = [sys.executable, __file__, "--alone", url, cache, "--batch_size", str(batch_size)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    if cache:
        shutil.rmtree(cache)
    numbers = [float(number) for number in done.stdout.split()]
    return [(numbers[at], numbers[at + 1]) for at in range(0, len(numbers), 2)]


def main() -> None:
    """Compares the ways."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", type=pathlib.Path, default=".bench/read-200000-hashed")
    parser.add_argument("--delay", type=float, default=0.02, help="seconds before each answer")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batch_size", type=int, default=1024)
    parser.add_argument("--alone", nargs=2, help="read this URL with this cache, in this process")
    parser.add_argument("--serve", action="store_true", help="only serve, in this process")
    arguments = parser.parse_args()
    folder = str(arguments.dataset.resolve())
    if arguments.alone:
        alone(*arguments.alone, arguments.batch_size)
        return
    if arguments.serve:
        server = Server(folder, arguments.delay)
        print(server.server_port, flush=True)
        server.serve_forever()
    command = [sys.executable, __file__, "--serve", "--dataset", folder]
    serving = subprocess.Popen(
        [*command, "--delay", str(arguments.delay)], stdout=subprocess.PIPE, text=True
    )
    port = int(serving.stdout.readline()) if serving.stdout else 0
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    try:
        for _ in range(arguments.repeats):
            for way in WAYS[:3]:
                found[way] += read(way, folder, port, arguments.batch_size)
            later, first = read("cache", folder, port, arguments.batch_size)
            found[WAYS[3]].append(first)
            found[WAYS[4]].append(later)
    finally:
        serving.terminate()
    least = {
        way: [min(values) for values in zip(*runs, strict=True)] for way, runs in found.items()
    }
    print("| | rows/s | CPU µs/row | rows/s, of local | CPU, times local |")
    print("|---|---:|---:|---:|---:|")
    for way, (wall, cpu) in least.items():
        print(
            f"| {way} | {1e6 / wall:,.0f} | {cpu:.2f} | {least['local'][0] / wall:.0%} | "
            f"{cpu / least['local'][1]:.2f} × |"
        )


if __name__ == "__main__":
    main()
