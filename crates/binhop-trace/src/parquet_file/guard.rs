//! `guarded` turns a panic of Parquet's decoder into a [`Problem`].
//!
//! Bytes of binhop's own files reach the decoder only after their checksum agreed. Files of other programs
//! have no checksum, and the `parquet` crate asserts some of what it reads, so it may panic on a damaged
//! file. A damaged file is an error of the input, not of binhop. After a panic, nothing that the decoder
//! holds is used again.

use std::panic::{AssertUnwindSafe, catch_unwind};

use binhop_base::{Problem, Result};
use parquet::errors::ParquetError;

/// Runs a decoding step. A panic or an error of the step becomes a [`Problem`] at `place`.
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
            .unwrap_or_else(|| "the decoder panicked".to_owned()),
    };
    Err(Problem::request(
        message.lines().next().unwrap_or_default(),
        place,
        "it cannot be decoded as Parquet",
        "the file is damaged or uses what this reader does not know: write it again, plain or with zstd",
    ))
}
