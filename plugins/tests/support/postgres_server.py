"""A PostgreSQL server on this machine, for tests."""

from __future__ import annotations

import contextlib
import glob
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

USER, PASSWORD = "shop", "a secret of nobody"
# It does not run as root; Debian's package makes a user for it.
_OWNER = "postgres"
_START_SECONDS = 60


def program(name: str) -> str | None:
    """The path of PostgreSQL's newest program of a name."""
    folders = sorted(
        glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[-2])
    )
    return shutil.which(name) or next(
        (path for folder in reversed(folders) if (path := shutil.which(name, path=folder))), None
    )


def is_here() -> bool:
    """Whether a server can be started."""
    is_installed = program("postgres") is not None and program("initdb") is not None
    if os.geteuid() != 0:
        return is_installed
    return is_installed and any(user.pw_name == _OWNER for user in pwd.getpwall())


class Server(NamedTuple):
    """A running server.

    Attributes:
      port: on 127.0.0.1.
      folder: of its data.
    """

    port: int
    folder: pathlib.Path

    def url(self, database: str = "postgres") -> str:
        """The URL of a database, without the password."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Runs statements, and returns the rows of the last one."""
        with self.connected() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    @contextlib.contextmanager
    def connected(self) -> Iterator[Any]:
        """A connection of the driver, which commits each statement."""
        from adbc_driver_postgresql import dbapi

        url = f"postgresql://{USER}:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{self.port}/postgres"
        with dbapi.connect(url, autocommit=True) as connection:
            yield connection


@contextlib.contextmanager
def postgres_server() -> Iterator[Server]:
    """Starts a server in a temporary folder; stops it at the end."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="beam-pipelines-postgres-"))
    as_owner: dict[str, Any] = {}
    if os.geteuid() == 0:
        as_owner = {"user": _OWNER, "group": pwd.getpwnam(_OWNER).pw_gid, "extra_groups": []}
        shutil.chown(folder, _OWNER)
    try:
        secret = folder / "secret"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        data = folder / "data"
        made = [program("initdb"), f"--pgdata={data}", f"--username={USER}", f"--pwfile={secret}"]
        made += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"]
        subprocess.run(made, check=True, cwd=folder, stdout=subprocess.DEVNULL, **as_owner)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [program("postgres"), "-D", str(data), "-p", str(port), "-k", str(folder)]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(
                command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, **as_owner
            )
        try:
            server = Server(port, folder)
            _await(server, process)
            yield server
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(_START_SECONDS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _await(server: Server, process: subprocess.Popen[bytes]) -> None:
    for _ in range(_START_SECONDS * 10):
        try:
            server.run("SELECT 1")
            return
        except Exception:
            if process.poll() is not None:
                raise
            time.sleep(0.1)
    raise TimeoutError((server.folder / "log").read_text())
