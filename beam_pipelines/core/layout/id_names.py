"""Names of columns that hold ids."""

from __future__ import annotations

import re

OF_IDS = frozenset(
    (
        "id", "ids", "uid", "uuid", "guid", "key", "code", "no", "nr", "num", "number", "phone",
        "mobile", "tel", "telephone", "fax", "msisdn", "imei", "ean", "gtin", "upc", "barcode",
        "isbn", "sku", "account", "card", "serial", "zip", "hash", "iban", "vin", "npi",
    )
)  # fmt: skip


def words_of(name: str) -> list[str]:
    """Returns the words of a name in lower case."""
    parted = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return re.findall(r"[a-z]+", parted.lower())


def is_of_ids(name: str) -> bool:
    """Whether a name ends as names of ids do: ``user_id``, ``zip``."""
    return bool(OF_IDS.intersection(words_of(name)[-1:]))
