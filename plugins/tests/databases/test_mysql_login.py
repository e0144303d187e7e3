"""Where clients of MariaDB and MySQL find server and password."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from beam_pipelines.core.errors import DataError
from beam_pipelines_plugins.databases.mysql import arguments_of

EMPTY = {
    "user": None,
    "password": b"",
    "host": None,
    "port": 0,
    "unix_socket": None,
    "database": None,
}


@pytest.fixture(autouse=True)
def home(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """An empty home, and no password in the environment."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    return tmp_path


def arguments(home: pathlib.Path, text: str, url: str = "mysql://") -> dict[str, Any]:
    """The driver's arguments with an option file."""
    (home / ".my.cnf").write_text(text)
    return {
        name: value for name, value in arguments_of(url).items() if EMPTY.get(name, "") != value
    }


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mysql://", {}),
        ("mysql://h", {"host": "h"}),
        (
            "mariadb://me%40x@h:33/my%20db",
            {"user": "me@x", "host": "h", "port": 33, "database": "my db"},
        ),
        ("mysql://[::1]/d", {"host": "::1", "database": "d"}),
    ],
)
def test_parts_of_a_url(home: pathlib.Path, url: str, expected: dict[str, Any]) -> None:
    """A URL names user, host, port and database."""
    assert arguments_of(url) == EMPTY | expected


@pytest.mark.parametrize(
    ("line", "password"),
    [
        ("password=secret", "secret"),
        ("Password = secret", "secret"),
        ("password = 'a # b'", "a # b"),
        ('password="it\'s"', "it's"),
        ("password = é€", "é€"),
        ("password", ""),
        ("#password=x", ""),
        ("[mysqldump]\npassword=x", ""),
        ("password=x\n[mysqld]\npassword=y\n[client]\npassword=z", "z"),
    ],
)
def test_passwords_in_option_files(home: pathlib.Path, line: str, password: str) -> None:
    """Quotes, comments and groups are those of PyMySQL."""
    found = arguments(home, f"; comment\n[client]\n{line}\n!includedir /etc\n")
    assert found.get("password", b"") == password.encode()


def test_the_url_comes_first(home: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The URL wins over the file, and the file over the environment."""
    monkeypatch.setenv("MYSQL_PWD", "of the environment")
    text = "[client]\nuser=a\nhost=b\nport=1\nsocket=/c\ndatabase=d\n"
    expected = {"user": "a", "host": "b", "port": 1, "unix_socket": "/c", "database": "d"}
    assert arguments(home, text) == expected | {"password": b"of the environment"}
    found = arguments(home, f"{text}password=p\n", "mysql://u@h:2/e")
    assert found == {"user": "u", "host": "h", "port": 2, "database": "e", "password": b"p"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", None),
        ("ssl-mode=REQUIRED", (False, False)),
        ("ssl", (False, False)),
        ("ssl = 1", (False, False)),
        ("ssl-mode=VERIFY_CA", (True, False)),
        ("ssl-ca=/ca", (True, False)),
        ("ssl-mode=VERIFY_IDENTITY", (True, True)),
        ("ssl-verify-server-cert=on", (True, True)),
        ("ssl-verify-server-cert=off", None),
        ("ssl-verify-server-cert", (True, True)),
    ],
)
def test_encryption(home: pathlib.Path, options: str, expected: tuple[bool, bool] | None) -> None:
    """Options of TLS become the driver's: whether certificate and name are checked."""
    found = arguments(home, f"[client]\n{options}\n").get("ssl")
    assert (found and (found["verify_mode"], found["check_hostname"])) == expected


def test_more_encryption(home: pathlib.Path) -> None:
    """Files of options are named; encryption may be turned off."""
    files = {"ca": "/a", "cert": "/c", "key": "/k"}
    text = "".join(f"ssl-{name}={path}\n" for name, path in files.items())
    assert arguments(home, f"[client]\n{text}")["ssl"].items() >= files.items()
    for line in ("ssl_mode=disabled", "skip-ssl"):
        assert arguments(home, f"[client]\n{line}\n") == {"ssl_disabled": True}


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://h/d?charset=latin1", "found the parameter 'charset' in a URL of mysql, expected"),
        (
            "mysql://h/d?defaults-file=/nothing",
            "/nothing: found a file that cannot be read (FileNotFound",
        ),
        ("mysql://h/d?defaults-file=/", "found a file that cannot be read (IsADirectoryError)"),
    ],
)
def test_problems(url: str, said: str) -> None:
    """Unknown parameters and files that cannot be read are errors."""
    with pytest.raises(DataError) as raised:
        arguments_of(url)
    assert said in str(raised.value)


def test_an_option_file_is_never_shown(home: pathlib.Path) -> None:
    """Errors have no text of the file, which may be a password."""
    (home / ".my.cnf").write_bytes(b"[client]\npassword=secret\xff\n")
    with pytest.raises(DataError, match="found a file that cannot be read") as raised:
        arguments_of("mysql://h")
    assert "secret" not in str(raised.value)
    with pytest.raises(ValueError, match="'x'"):
        arguments(home, "[client]\nport = x\n")
