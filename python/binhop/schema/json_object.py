"""The base of every object that a command writes as JSON."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class JsonObject(BaseModel):
    """`JsonObject` is an object of a schema: it has the declared keys and no others."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)
