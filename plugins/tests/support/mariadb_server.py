"""A MariaDB server on this machine, for tests."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
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

USER, PASSWORD = "shop", "a #secret of nobody €"
# It does not run as root; Debian's package makes a user for it.
_OWNER = "mysql"
_START_SECONDS = 60


def program(name: str) -> str | None:
    """The path of a program of MariaDB."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def is_here() -> bool:
    """Whether a server can be started."""
    is_installed = program("mariadbd") is not None and program("mariadb-install-db") is not None
    if os.geteuid() != 0:
        return is_installed
    return is_installed and any(user.pw_name == _OWNER for user in pwd.getpwall())


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
    folder = pathlib.Path(tempfile.mkdtemp(prefix="beam-pipelines-mariadb-"))
    as_owner: dict[str, Any] = {}
    if os.geteuid() == 0:
        as_owner = {"user": _OWNER, "group": pwd.getpwnam(_OWNER).pw_gid, "extra_groups": []}
        shutil.chown(folder, _OWNER)
    try:
        _write_certificates(folder)
        data = [f"--datadir={folder / 'data'}"]
        made = [program("mariadb-install-db"), "--no-defaults", *data, "--skip-test-db"]
        made += ["--auth-root-authentication-method=normal"]
        subprocess.run(made, check=True, cwd=folder, capture_output=True, **as_owner)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [program("mariadbd"), "--no-defaults", *data, f"--port={port}"]
        command += ["--bind-address=127.0.0.1", f"--socket={folder / 'socket'}"]
        command += [f"--pid-file={folder / 'pid'}", "--innodb-flush-log-at-trx-commit=0"]
        command += [f"--ssl-cert={folder / 'server.pem'}", f"--ssl-key={folder / 'server.key'}"]
        command += [f"--log-bin={folder / 'data' / 'log'}", "--server-id=1"]
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(
                command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, **as_owner
            )
        try:
            server = Server(port, folder)
            _await(server, process)
            server.run(
                "CREATE DATABASE shop CHARACTER SET utf8mb4",
                f"CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}'",
                f"GRANT SELECT, SHOW VIEW, EXECUTE ON shop.* TO {USER}@'%'",
                database="mysql",
            )
            yield server
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(_START_SECONDS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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


def _await(server: Server, process: subprocess.Popen[bytes]) -> None:
    for _ in range(_START_SECONDS * 10):
        try:
            server.run("SELECT 1", database="mysql")
            return
        except Exception:
            if process.poll() is not None:
                raise
            time.sleep(0.1)
    raise TimeoutError((server.folder / "log").read_text())
