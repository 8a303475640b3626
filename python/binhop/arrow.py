"""Checks Arrow streams of other libraries where the C interface cannot.

A stream tells its schema once, and its batches are memory without types. A batch with other types would
therefore be misread. A reader of pyarrow knows the schema of each batch, and this module compares it with the
schema of the stream.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def checked(stream: Any) -> Any:
    """Returns the stream. A record batch reader is wrapped, and stops at a batch of another schema."""
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is None or not isinstance(stream, pyarrow.RecordBatchReader):
        return stream
    schema = stream.schema

    def batches() -> Iterator[Any]:
        for number, batch in enumerate(stream):
            if not batch.schema.equals(schema):
                was, now = _columns(schema), _columns(batch.schema)
                raise ValueError(f"batch {number} has the columns {now}, and the reader's schema says {was}")
            yield batch

    return pyarrow.RecordBatchReader.from_batches(schema, batches())


def _columns(schema: Any) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)


__all__ = ["checked"]
