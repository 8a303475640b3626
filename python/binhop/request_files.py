"""Reads requests to memory from files: Parquet, and the memory traces of `binhop export`."""

from __future__ import annotations

from pathlib import Path

from binhop.errors import RequestError
from binhop.lazy_imports import pl

WRITES = {"LD": False, "ST": True, "READ": False, "WRITE": True}
"""Each word that stands for an access in a memory trace; true if the access is a write."""

_PARQUET = b"PAR1"


def read_requests(path: str) -> pl.DataFrame:
    """Returns the columns of a file. A memory trace has the columns arrival (cycle), address and write.

    Requests of Ramulator 2 (`LD 0x40`) have no time: one arrives in each cycle, as its LoadStoreTrace sends
    them. Those of DRAMsim3 (`0x40 READ 9`) have their cycle.
    """
    try:
        with Path(path).open("rb") as file:
            is_parquet = file.read(len(_PARQUET)) == _PARQUET
        if is_parquet:
            return pl.read_parquet(path)
        lines = pl.read_csv(path, has_header=False, separator="\n", quote_char=None, new_columns=["line"])
    except pl.exceptions.NoDataError:
        return _trace(pl.DataFrame({"line": []}, schema={"line": pl.String}), path)
    except (OSError, pl.exceptions.PolarsError) as error:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        rule = f"the file cannot be read as Parquet, or as a memory trace of `binhop export` ({said})"
        raise RequestError(path, "requests", rule, "give the path of such a file, or a table") from None
    return _trace(lines, path)


def _trace(lines: pl.DataFrame, path: str) -> pl.DataFrame:
    """Returns the requests of the lines of a memory trace."""
    load_store = pl.col("line").str.extract_groups(
        r"^(?<word>LD|ST) (?:0x(?<hex>[0-9a-fA-F]{1,16})|(?<whole>\d+))$"
    )
    timed = pl.col("line").str.extract_groups(
        r"^0x(?<hex>[0-9a-fA-F]{1,16}) (?<word>READ|WRITE) (?<cycle>\d+)$"
    )
    of_processor = lines["line"].str.contains(r"^0x[0-9a-fA-F]+ (read|write) ").arg_true()
    if len(of_processor):
        number = int(of_processor[0])
        rule = (
            "an arrival is a cycle of the memory; read and write in small letters have cycles of a processor"
        )
        remedy = "export with --scheme, or with --to ramulator2, or give a table with arrival_ps"
        raise RequestError(str(lines["line"][number])[:60], f"{path}: line {number + 1}", rule, remedy)
    has_time = lines.height > 0 and not str(lines["line"][0]).startswith(("LD", "ST"))
    parts = lines.select((timed if has_time else load_store).alias("of")).unnest("of")
    whole = pl.lit(None, pl.String) if has_time else pl.col("whole")
    cycle = pl.col("cycle").str.to_integer(dtype=pl.UInt64, strict=False)
    address = pl.col("hex").str.to_integer(base=16, dtype=pl.UInt64, strict=False)
    requests = parts.select(
        (cycle if has_time else pl.int_range(pl.len(), dtype=pl.UInt64)).alias("arrival"),
        address.fill_null(whole.str.to_integer(dtype=pl.UInt64, strict=False)).alias("address"),
        pl.col("word").replace_strict(WRITES, return_dtype=pl.Boolean).alias("write"),
    )
    wrong = requests.select(pl.any_horizontal(pl.all().is_null()).arg_true()).to_series()
    if len(wrong):
        number = int(wrong[0])
        rule = 'a line of a memory trace is like "LD 0x40" (Ramulator 2) or "0x40 READ 9" (DRAMsim3)'
        raise RequestError(
            str(lines["line"][number])[:60], f"{path}: line {number + 1}", rule, "export the trace anew"
        )
    return requests


__all__ = ["read_requests"]
