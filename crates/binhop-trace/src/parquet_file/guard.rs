//! Parquet's decoder at arm's length.
//!
//! Bytes of our own files reach the decoder only after their checksum agreed. Other programs' files have none, and
//! the `parquet` crate, which asserts some of what it reads, may panic where such a file is damaged. A damaged file is
//! the user's problem, not ours, so a panic in there becomes one. Nothing the decoder left half-done is used again.

use std::panic::{AssertUnwindSafe, catch_unwind};

use binhop_base::{Problem, Result};
use parquet::errors::ParquetError;

/// Runs a decoding step; what it throws or returns as an error becomes a [`Problem`] at `place`.
pub(crate) fn guarded<T>(
    place: &str,
    step: impl FnOnce() -> std::result::Result<T, ParquetError>,
) -> Result<T> {
    let message = match catch_unwind(AssertUnwindSafe(step)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()))
            .unwrap_or_else(|| "the decoder gave up".to_owned()),
    };
    Err(Problem::request(
        message.lines().next().unwrap_or_default(),
        place,
        "it cannot be decoded as Parquet",
        "the file is damaged or uses what this reader does not know: write it again, plain or with zstd",
    ))
}
