"""A MariaDB server on this machine, for tests."""

from __future__ import annotations

import contextlib
import datetime
import functools
import ipaddress
import pathlib
import shutil
import signal
import subprocess
from collections.abc import Iterator
from typing import Any, NamedTuple

from plugins.tests.support import own_server

USER, PASSWORD = "shop", "a #secret of nobody €"
# It does not run as root; Debian's package makes a user for it.
_OWNER = "mysql"


def program(name: str) -> str | None:
    """The path of a program of MariaDB."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def is_here() -> bool:
    """Whether a server can be started."""
    return own_server.can_run(_OWNER, [program("mariadbd"), program("mariadb-install-db")])


class Server(NamedTuple):
    """A running server.

    Attributes:
      port: on 127.0.0.1.
      folder: of its data, with its ``socket``, and ``authority.pem``, which signed its
        certificate for 127.0.0.1.
    """

    port: int
    folder: pathlib.Path

    def url(self, database: str = "shop", scheme: str = "mariadb") -> str:
        """The URL of a database, without the password."""
        return f"{scheme}://{USER}@127.0.0.1:{self.port}/{database}"

    def run(self, *statements: str, database: str = "shop") -> list[tuple[Any, ...]]:
        """Runs statements as root, and returns the rows of the last one."""
        with self.connected(database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    @contextlib.contextmanager
    def connected(self, database: str = "shop") -> Iterator[Any]:
        """A connection of the driver as root, which commits each statement."""
        import pymysql

        connection = pymysql.connect(
            unix_socket=str(self.folder / "socket"), user="root", database=database, autocommit=True
        )
        with contextlib.closing(connection):
            yield connection


@contextlib.contextmanager
def mariadb_server() -> Iterator[Server]:
    """Starts a server with a database ``shop``; stops it at the end."""
    with own_server.own_folder(_OWNER, "mariadb") as (folder, arguments):
        _write_certificates(folder)
        data = [f"--datadir={folder / 'data'}"]
        made = [program("mariadb-install-db"), "--no-defaults", *data, "--skip-test-db"]
        made += ["--auth-root-authentication-method=normal"]
        subprocess.run(made, check=True, capture_output=True, **arguments)
        server = Server(own_server.free_port(), folder)
        command = [program("mariadbd"), "--no-defaults", *data, f"--port={server.port}"]
        command += ["--bind-address=127.0.0.1", f"--socket={folder / 'socket'}"]
        command += [f"--pid-file={folder / 'pid'}", "--innodb-flush-log-at-trx-commit=0"]
        command += [f"--ssl-cert={folder / 'server.pem'}", f"--ssl-key={folder / 'server.key'}"]
        command += [f"--log-bin={folder / 'data' / 'log'}", "--server-id=1"]
        ask = functools.partial(server.run, "SELECT 1", database="mysql")
        with own_server.running(command, arguments, ask, signal.SIGTERM):
            server.run(
                "CREATE DATABASE shop CHARACTER SET utf8mb4",
                f"CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}'",
                f"GRANT SELECT, SHOW VIEW, EXECUTE ON shop.* TO {USER}@'%'",
                database="mysql",
            )
            yield server


def _write_certificates(folder: pathlib.Path) -> None:
    """Makes an authority, and the server's certificate and key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    now = datetime.datetime.now(datetime.timezone.utc)
    for file, subject, own in (("authority", "authority", authority), ("server", "server", key)):
        made = (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name("authority"))
            .public_key(own.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(own is authority, None), critical=True)
        )
        if own is key:
            address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
            made = made.add_extension(x509.SubjectAlternativeName([address]), critical=False)
        signed = made.sign(authority, hashes.SHA256())
        (folder / f"{file}.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
