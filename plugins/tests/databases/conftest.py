"""Database servers for the tests in this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from plugins.tests.support import mariadb_server, postgres_server


@pytest.fixture(scope="session")
def running() -> Iterator[postgres_server.Server]:
    """A server with an empty database."""
    pytest.importorskip("adbc_driver_postgresql", reason="it needs Python 3.11")
    if not postgres_server.is_here():
        pytest.skip("found no PostgreSQL server; `make databases` installs Debian's")
    with postgres_server.postgres_server() as server:
        yield server


@pytest.fixture
def server(
    running: postgres_server.Server, monkeypatch: pytest.MonkeyPatch
) -> postgres_server.Server:
    """The server, with the password where libpq looks for it."""
    monkeypatch.setenv("PGPASSWORD", postgres_server.PASSWORD)
    return running


@pytest.fixture(scope="session")
def running_mariadb() -> Iterator[mariadb_server.Server]:
    """A server of MariaDB with an empty database ``shop``."""
    if not mariadb_server.is_here():
        pytest.skip("found no MariaDB server; `make databases` installs Debian's")
    with mariadb_server.mariadb_server() as server:
        yield server


@pytest.fixture
def mariadb(
    running_mariadb: mariadb_server.Server, monkeypatch: pytest.MonkeyPatch
) -> mariadb_server.Server:
    """The server of MariaDB, with the password in its place."""
    monkeypatch.setenv("MYSQL_PWD", mariadb_server.PASSWORD)
    return running_mariadb
