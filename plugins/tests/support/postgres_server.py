"""A PostgreSQL server on this machine, for tests."""

from __future__ import annotations

import contextlib
import functools
import glob
import pathlib
import shutil
import signal
import subprocess
from collections.abc import Iterator
from typing import Any, NamedTuple

from plugins.tests.support import own_server

USER, PASSWORD = "shop", "a secret of nobody"
# It does not run as root; Debian's package makes a user for it.
_OWNER = "postgres"


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
    return own_server.can_run(_OWNER, [program("postgres"), program("initdb")])


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
    with own_server.own_folder(_OWNER, "postgres") as (folder, arguments):
        secret = folder / "secret"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        data = folder / "data"
        made = [program("initdb"), f"--pgdata={data}", f"--username={USER}", f"--pwfile={secret}"]
        made += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, **arguments)
        server = Server(own_server.free_port(), folder)
        command = [program("postgres"), "-D", str(data), "-p", str(server.port), "-k", str(folder)]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
        ask = functools.partial(server.run, "SELECT 1")
        with own_server.running(command, arguments, ask, signal.SIGINT):
            yield server
