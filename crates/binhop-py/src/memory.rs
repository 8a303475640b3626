//! `memory` returns the memory that a run may take: the system's available memory, or the user's figure.

use binhop_base::{Bytes, Result};
use binhop_sim::MemoryLimit;

/// The environment variable of the user's figure.
const VARIABLE: &str = "BINHOP_MEMORY";

/// Returns the memory that a run that starts now may take.
///
/// # Errors
/// The user's figure is not a size.
pub(crate) fn memory() -> Result<Option<MemoryLimit>> {
    match std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) {
        None => Ok(MemoryLimit::available()),
        Some(text) => {
            let Bytes(bytes) = Bytes::parse(&text.to_string_lossy(), VARIABLE)?;
            Ok(Some(MemoryLimit { bytes, source: format!("{VARIABLE}={}", text.to_string_lossy()) }))
        }
    }
}
