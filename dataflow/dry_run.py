"""Runs a command that submits a job to Dataflow, against local servers.

    python dataflow/dry_run.py [--data gs://bucket/folder=FOLDER]… -- beam-pipelines convert …
    --runner=DataflowRunner --no_wait_until_finish

The storage is gcp-storage-emulator, in memory. Dataflow is a server in this process that speaks its
``jobs.create``, keeps what it receives, and starts no worker. So the launcher does all its work:
planning, translation of the whole pipeline, staging, submission. ``run_dataflow.sh --dry-run``
calls this module, which then prints the received job.
"""

from __future__ import annotations

import argparse
import contextlib
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from apache_beam.portability.api import beam_runner_api_pb2
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from gcp_storage_emulator.server import create_server
from google.auth.credentials import AnonymousCredentials
from google.cloud import dataflow_v1beta3, storage

JOB_ID = "2000-01-01_dry-run"


class Dataflow(http.server.ThreadingHTTPServer):
    """Serves Dataflow's REST interface, and tokens for credentials.

    Attributes:
      received: bodies of the requests that create a job, as they came.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[bytes] = []

    @property
    def url(self) -> str:
        """The address; for the host localhost, Beam speaks REST rather than gRPC."""
        return f"http://localhost:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Dataflow

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.split("?")[0]
        if path == "/token":
            self._answer(
                200, {"access_token": "dry-run", "expires_in": 3600, "token_type": "Bearer"}
            )
        elif path.startswith("/v1b3/projects/") and path.endswith("/jobs"):
            self.server.received.append(body)
            job = json.loads(body)
            same = {name: job[name] for name in ("name", "type", "clientRequestId") if name in job}
            self._answer(200, {"id": JOB_ID, **same})
        else:
            self._answer(404, {"error": {"code": 404, "message": f"no POST {path} in a dry run"}})

    def do_GET(self) -> None:
        self._answer(404, {"error": {"code": 404, "message": f"no GET {self.path} in a dry run"}})

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Prints nothing; the summary at the end has all that matters."""


class Cloud(NamedTuple):
    """A storage and a Dataflow on this machine.

    Attributes:
      dataflow: the server.
      storage: a client of the storage.
      environment: variables with which a process finds both, and has credentials for them.
    """

    dataflow: Dataflow
    storage: storage.Client
    environment: dict[str, str]


@contextlib.contextmanager
def emulated_cloud() -> Iterator[Cloud]:
    """Starts both servers, and stops them at the end."""
    dataflow = Dataflow()
    threading.Thread(target=dataflow.serve_forever, daemon=True).start()
    emulator = create_server("127.0.0.1", 0, in_memory=True)
    emulator.start()
    # The only way to learn which port was free.
    url = f"http://127.0.0.1:{emulator._api._httpd.server_port}"  # noqa: SLF001
    try:
        with tempfile.TemporaryDirectory() as folder:
            credentials = pathlib.Path(folder, "credentials.json")
            credentials.write_text(json.dumps(_service_account(f"{dataflow.url}/token")))
            client = storage.Client(
                "dry-run", AnonymousCredentials(), client_options={"api_endpoint": url}
            )
            variables = {
                "STORAGE_EMULATOR_HOST": url,
                "GOOGLE_APPLICATION_CREDENTIALS": str(credentials),
            }
            yield Cloud(dataflow, client, variables)
    finally:
        emulator.stop()
        dataflow.shutdown()
        dataflow.server_close()


def _service_account(token_url: str) -> dict[str, str]:
    """Returns credentials of a service account that only the token server knows."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return {
        "type": "service_account",
        "client_email": "dry-run@example.com",
        "private_key": key.private_bytes(encoding, form, serialization.NoEncryption()).decode(),
        "token_uri": token_url,
    }


def put_files(client: storage.Client, url: str, folder: pathlib.Path) -> int:
    """Puts the files of a folder under a ``gs://`` URL.

    It makes the bucket if need be.

    Returns:
      The number of files.
    """
    bucket_name, _, prefix = url.removeprefix("gs://").partition("/")
    bucket = client.lookup_bucket(bucket_name) or client.create_bucket(bucket_name)
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    for path in paths:
        name = path.relative_to(folder).as_posix()
        bucket.blob(f"{prefix.rstrip('/')}/{name}".lstrip("/")).upload_from_filename(str(path))
    return len(paths)


def read_url(client: storage.Client, url: str) -> bytes:
    """Returns the content of an object.

    The name is a ``gs://`` URL, or Dataflow's form of it, ``storage.googleapis.com/…``.
    """
    bucket_name, _, name = (
        url.removeprefix("gs://").removeprefix("storage.googleapis.com/").partition("/")
    )
    return bytes(client.bucket(bucket_name).blob(name).download_as_bytes())


def describe(cloud: Cloud) -> list[str]:
    """Returns lines about the received job, and reads all its staged files.

    Raises:
      ValueError: there is not one job, or it names something that is not there.
    """
    if len(cloud.dataflow.received) != 1:
        raise ValueError(f"Dataflow received {len(cloud.dataflow.received)} jobs, expected 1")
    job = dataflow_v1beta3.Job.from_json(cloud.dataflow.received[0])
    pool = job.environment.worker_pools[0]
    options = json.loads(cloud.dataflow.received[0])["environment"]["sdkPipelineOptions"]["options"]
    pipeline = beam_runner_api_pb2.Pipeline.FromString(
        read_url(cloud.storage, options["pipelineUrl"])
    )
    staged = [
        (package.name, len(read_url(cloud.storage, package.location))) for package in pool.packages
    ]
    return [
        f"job         {job.name}, {job.type_.name}, in {options['region']}",
        (
            f"workers     {pool.machine_type}, up to {pool.autoscaling_settings.max_num_workers}, "
            f"{pool.autoscaling_settings.algorithm.name}"
        ),
        *(f"image       {image.container_image}" for image in pool.sdk_harness_container_images),
        f"pipeline    {len(pipeline.components.transforms)} transforms: {options['pipelineUrl']}",
        *(f"staged      {name}, {size:,} bytes" for name, size in staged),
        f"experiments {', '.join(job.environment.experiments)}",
        f"labels      {', '.join(f'{name}={value}' for name, value in sorted(job.labels.items()))}",
        f"scheduling  {job.environment.flex_resource_scheduling_goal.name}",
    ]


def main() -> int:
    """Runs the command and prints the received job.

    Returns:
      The command's exit status, or 1 if the job is not whole.
    """
    parser = argparse.ArgumentParser(
        description="Runs a command with a storage and a Dataflow on this machine."
    )
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="gs://…=FOLDER",
        help="Files that are to be there.",
    )
    parser.add_argument(
        "--keep_request", metavar="FILE", help="Where to write the request that Dataflow received."
    )
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    with emulated_cloud() as cloud:
        for item in arguments.data:
            url, equals, folder = item.partition("=")
            if not url.startswith("gs://") or not equals or not os.path.isdir(folder):
                parser.error(
                    f"--data: found '{item}', expected gs://BUCKET/FOLDER=FOLDER-ON-THIS-MACHINE."
                )
            put_files(cloud.storage, url, pathlib.Path(folder))
        for bucket in _buckets(arguments.command):
            if cloud.storage.lookup_bucket(bucket) is None:
                cloud.storage.create_bucket(bucket)
        command = [*arguments.command, f"--dataflow_endpoint={cloud.dataflow.url}"]
        status = subprocess.run(command, env=os.environ | cloud.environment, check=False).returncode
        if status:
            print(
                "dry run: the storage here holds what --data puts there, and nothing else.",
                file=sys.stderr,
            )
            return status
        try:
            lines = describe(cloud)
        except (ValueError, KeyError, IndexError) as error:
            print(f"dry run: the job that was received is not whole: {error!r}", file=sys.stderr)
            return 1
        if arguments.keep_request:
            pathlib.Path(arguments.keep_request).write_bytes(cloud.dataflow.received[0])
    print("dry run: nothing left this machine. A server here received what Dataflow would:")
    print("\n".join(f"  {line}" for line in lines))
    return 0


def _buckets(command: list[str]) -> list[str]:
    """Returns the buckets in the command's arguments.

    A dry run has to make them.
    """
    values = [argument.partition("=")[2] or argument for argument in command]
    return sorted({value[5:].split("/")[0] for value in values if value.startswith("gs://")})


if __name__ == "__main__":
    sys.exit(main())
