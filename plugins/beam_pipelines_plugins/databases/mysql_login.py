"""How a client of MariaDB and MySQL finds its server and password.

As for their own programs: the URL first, then the group ``[client]`` of an option file, then
``MYSQL_PWD``.
"""

from __future__ import annotations

import configparser
import os
import urllib.parse
from collections.abc import Mapping
from typing import Any

from beam_pipelines.core.errors import DataError, keep_secret

_OPTION_FILE, _PARAMETER, _GROUP = "~/.my.cnf", "defaults-file", "client"
_OFF = ("0", "off", "false")


def arguments_of(url: str) -> dict[str, Any]:
    """Returns the driver's arguments for a URL.

    Args:
      url: ``mysql://user@host:port/database?defaults-file=/path``, each part optional.

    Raises:
      DataError: a parameter that is not known, an option file that cannot be read.
    """
    parts = urllib.parse.urlsplit(url)
    parameters = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    for name in sorted(set(parameters) - {_PARAMETER}):
        raise DataError(
            f"found the parameter '{name}' in a URL of {parts.scheme}, expected only "
            f"'{_PARAMETER}'. Write the option into that file, in the group [{_GROUP}]."
        )
    options = _options(parameters.get(_PARAMETER))
    password = options.get("password") or os.environ.get("MYSQL_PWD", "")
    keep_secret(password)
    host = parts.hostname or options.get("host")
    return {
        "user": urllib.parse.unquote(parts.username or "") or options.get("user"),
        # The driver would take Latin-1.
        "password": password.encode(),
        "host": host,
        "port": parts.port or _port(options),
        "unix_socket": None if parts.hostname else options.get("socket"),
        "database": urllib.parse.unquote(parts.path.strip("/")) or options.get("database"),
        **_encryption(options),
    }


def _port(options: Mapping[str, str]) -> int:
    text = options.get("port", "0")
    if not text.isdecimal():
        raise DataError(f"found port '{text}' in an option file, expected a number. Correct it.")
    return int(text)


def _encryption(options: Mapping[str, str]) -> dict[str, Any]:
    """Returns the driver's arguments for TLS.

    Without options it encrypts if the server can, and does not check who the server is.
    """
    mode = options.get("ssl-mode", "").upper()
    checks_name = mode == "VERIFY_IDENTITY" or _is_on(options, "ssl-verify-server-cert")
    checks = checks_name or mode == "VERIFY_CA" or "ssl-ca" in options
    if checks or "ssl-cert" in options:
        return {
            "ssl_ca": options.get("ssl-ca"),
            "ssl_cert": options.get("ssl-cert"),
            "ssl_key": options.get("ssl-key"),
            "ssl_verify_cert": checks,
            "ssl_verify_identity": checks_name,
        }
    if mode == "DISABLED" or _is_on(options, "skip-ssl"):
        return {"ssl_disabled": True}
    return {"ssl": {"verify_mode": "none"}} if mode == "REQUIRED" or _is_on(options, "ssl") else {}


def _is_on(options: Mapping[str, str], name: str) -> bool:
    return name in options and options[name].lower() not in _OFF


def _options(path: str | None) -> dict[str, str]:
    """Returns the options of a file's group, by names with hyphens.

    Args:
      path: of the file, which must be there; ``None``: the user's, if there is one.
    """
    from pymysql.optionfile import Parser

    found, parser = os.path.expanduser(path or _OPTION_FILE), Parser(strict=False)
    if not os.path.exists(found):
        if path is None:
            return {}
        raise DataError(f"there is no file {found}. Check '{_PARAMETER}' of the URL.")
    try:
        with open(found, encoding="utf-8") as file:
            parser.read_file(file)
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        # No text of the file is shown: it may have a password.
        raise DataError(
            f"{found}: found a file that cannot be read ({type(error).__name__}), expected options "
            "of MariaDB's and MySQL's clients, as UTF-8 text."
        ) from None
    found_options = parser.items(_GROUP) if parser.has_section(_GROUP) else ()
    return {name: parser.get(_GROUP, name) if value else "" for name, value in found_options}
