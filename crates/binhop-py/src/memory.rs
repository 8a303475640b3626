//! The memory that a run may take: what this system has, or what the user says.

use binhop_base::{Bytes, Result};
use binhop_sim::MemoryLimit;

/// The variable in which a user says it.
const VARIABLE: &str = "BINHOP_MEMORY";

/// Returns the memory that a run that starts now may take.
///
/// # Errors
/// The user's figure is none.
pub(crate) fn memory() -> Result<Option<MemoryLimit>> {
    match std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) {
        None => Ok(MemoryLimit::available()),
        Some(text) => {
            let Bytes(bytes) = Bytes::parse(&text.to_string_lossy(), VARIABLE)?;
            Ok(Some(MemoryLimit { bytes, source: format!("{VARIABLE}={}", text.to_string_lossy()) }))
        }
    }
}
