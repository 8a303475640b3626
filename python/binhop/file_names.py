"""Makes file names from any text, and checks file names that the user gives."""

from __future__ import annotations

import re

from binhop.errors import RequestError
from binhop.escape import STEERING
from binhop.lazy_imports import hashlib

LONGEST = 200
"""The most bytes of a file's name without its ending. File systems take 255."""


def as_file_name(text: str) -> str:
    """Returns the text as a file's name, without an ending. The name holds no directory and is not too long.

    A text that cannot be a name gets a digest appended, so that two such texts have different names.

    >>> as_file_name("lin-l2"), as_file_name("../../x-l2")
    ('lin-l2', '-..-x-l2-71ed55f1')
    """
    name = re.sub(rf"[/\\]|{STEERING.pattern}", "-", text).lstrip(".")
    short = name.encode()[:LONGEST].decode(errors="ignore")
    if short == text:
        return text
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{short}-{digest}"


def decodable(name: str, place: str) -> str:
    """Returns the name of a file, if its bytes are UTF-8. Tables and messages hold the name as text.

    >>> decodable("lin.parquet", "trace")
    'lin.parquet'
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        rule = "the name holds bytes that are no UTF-8"
        raise RequestError(
            name, place, rule, "rename it, or make a link to it that has another name"
        ) from None
    return name
