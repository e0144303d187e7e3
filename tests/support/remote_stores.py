"""Object stores on this machine for tests.

moto speaks S3's interface, gcp-storage-emulator that of Google's storage.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import boto3
from dry_run import emulated_cloud
from moto.moto_server import threaded_moto_server
from moto.s3.models import s3_backends
from moto.server import ThreadedMotoServer

KEY, SECRET = "AKIAEXAMPLEKEY000000", "sEcReT/eXaMpLe/0000000000000000000000000"


_BUSY = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"


class Faults:
    """Counts a server's requests; delays, refuses and breaks off some of them.

    ``before`` gets the number of each, and returns what to do before it is answered.
    """

    def __init__(self) -> None:
        """Starts without any."""
        self.requests, self.delay_secs, self.busy, self.reset = 0, 0.0, 0.0, 0.0
        self._random, self._lock = random.Random(1), threading.Lock()
        self.before: Callable[[int], Callable[[], object] | None] = lambda _: None

    def around(self, app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
        """Returns a WSGI application in front of another one."""

        def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
            with self._lock:
                self.requests += 1
                chance = self._random.random()
                number = self.requests
            if first := self.before(number):
                first()
            time.sleep(self.delay_secs)
            if chance < self.busy:
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
                start("503 Slow Down", [("Content-Length", str(len(_BUSY)))])
                return [_BUSY]
            if chance < self.busy + self.reset:
                connection = environ["werkzeug.socket"]
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.shutdown(socket.SHUT_RDWR)
                raise ConnectionResetError
            return app(environ, start)

        return answer


class Store(NamedTuple):
    """A bucket of an object store.

    Attributes:
      url: of the bucket, such as ``s3://store``.
      options: flags with which our command line finds it.
      objects: reads, writes and lists behind our back.
      faults: of the server, if it is S3's.
    """

    url: str
    options: list[str]
    objects: Any
    faults: Faults = Faults()

    def download(self, prefix: str, folder: pathlib.Path) -> pathlib.Path:
        """Copies objects to a local folder, which it returns."""
        for name in self.objects.names(f"{prefix}/"):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.objects.get(name))
        return folder / prefix


class S3Objects(NamedTuple):
    """Objects of a bucket, through boto3."""

    client: Any

    def put(self, name: str, data: bytes) -> None:
        """Writes an object."""
        self.client.put_object(Bucket="store", Key=name, Body=data)

    def get(self, name: str) -> bytes:
        """Reads an object."""
        return bytes(self.client.get_object(Bucket="store", Key=name)["Body"].read())

    def names(self, prefix: str) -> list[str]:
        """Lists the names that begin with a prefix."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket="store", Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", [])]

    def by_time(self, prefix: str) -> list[str]:
        """Lists the uploads in the order in which they were written.

        The interface gives times to the second only.
        """
        keys = _backend().buckets["store"].keys
        return sorted(self.names(prefix), key=lambda name: keys[name].last_modified)


class GoogleObjects(NamedTuple):
    """Objects of a bucket, through Google's own client."""

    client: Any

    def put(self, name: str, data: bytes) -> None:
        """Writes an object."""
        self.client.bucket("store").blob(name).upload_from_string(data)

    def get(self, name: str) -> bytes:
        """Reads an object."""
        return bytes(self.client.bucket("store").blob(name).download_as_bytes())

    def names(self, prefix: str) -> list[str]:
        """Lists the names that begin with a prefix."""
        return [blob.name for blob in self.client.list_blobs("store", prefix=prefix)]

    def by_time(self, prefix: str) -> list[str]:
        """Lists them in the order in which they were written."""
        return [
            blob.name
            for blob in sorted(
                self.client.list_blobs("store", prefix=prefix), key=lambda blob: blob.updated
            )
        ]


def _backend() -> Any:
    """Returns the objects behind every server of moto in this process."""
    return s3_backends["123456789012"]["aws"]


@contextlib.contextmanager
def s3_store() -> Iterator[Store]:
    """Starts moto's S3, with credentials in the environment, where users have them."""
    faults, name = Faults(), "DomainDispatcherApplication"
    make = getattr(threaded_moto_server, name)
    with mock.patch.object(
        threaded_moto_server, name, lambda backend: faults.around(make(backend))
    ):
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    variables = {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    try:
        # All servers of a process have one backend: another store's objects are not in this one.
        with (
            mock.patch.object(_backend(), "buckets", {}),
            mock.patch.object(s3_backends, "bucket_accounts", {}),
            mock.patch.dict(os.environ, variables),
        ):
            client = boto3.client("s3", endpoint_url=url)
            client.create_bucket(Bucket="store")
            yield Store("s3://store", [f"--s3_endpoint_url={url}"], S3Objects(client), faults)
    finally:
        server.stop()


@contextlib.contextmanager
def google_store() -> Iterator[Store]:
    """Starts an emulator of Google's storage, with credentials that it takes."""
    with emulated_cloud() as cloud, mock.patch.dict(os.environ, cloud.environment):
        cloud.storage.create_bucket("store")
        yield Store("gs://store", [], GoogleObjects(cloud.storage))
