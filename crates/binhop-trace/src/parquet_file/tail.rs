//! `read_tail` reads the end of a Parquet file: its footer, the footer's length, and the magic number.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use binhop_base::{Problem, Result, counted};

use super::damaged;

/// The bytes that a Parquet file begins and ends with.
pub(crate) const MAGIC: &[u8; 4] = b"PAR1";

/// Returns the length of the file, and its bytes from the start of the footer to the end.
pub(crate) fn read_tail(file: &mut File, place: &str) -> Result<(u64, Vec<u8>)> {
    let unreadable = |error: std::io::Error| {
        Problem::request(
            &error.to_string(),
            place,
            "the file cannot be read",
            "check the path and its permissions",
        )
    };
    let remedy = "a trace is a Parquet file: convert other formats with `binhop import`";
    let bytes = file.seek(SeekFrom::End(0)).map_err(unreadable)?;
    if bytes == 0 {
        return Err(Problem::request("0 bytes", place, "the file is empty", remedy));
    }
    if bytes < 12 {
        let rule = "a Parquet file has at least 12 bytes";
        return Err(Problem::request(&counted(bytes, ["byte", "bytes"]), place, rule, remedy));
    }
    let mut read = |start: u64, length: u64| -> Result<Vec<u8>> {
        let mut buffer = vec![0; length as usize];
        file.seek(SeekFrom::Start(start)).map_err(unreadable)?;
        file.read_exact(&mut buffer).map_err(unreadable)?;
        Ok(buffer)
    };
    let first = read(0, 4)?;
    let last = read(bytes - 8, 8)?;
    let show = |bytes: &[u8]| bytes.escape_ascii().to_string();
    match (first == MAGIC, last[4..] == *MAGIC) {
        (true, true) => {}
        (false, false) => {
            return Err(Problem::request(
                &show(&first),
                place,
                "not a Parquet file: it does not start with PAR1",
                remedy,
            ));
        }
        (true, false) => {
            return Err(damaged(
                &show(&last[4..]),
                place,
                "a Parquet file ends with PAR1: this file is cut short or damaged at its end",
            ));
        }
        (false, true) => {
            return Err(damaged(
                &show(&first),
                place,
                "a Parquet file starts with PAR1: this file is damaged at its start",
            ));
        }
    }
    let length = u64::from(u32::from_le_bytes([last[0], last[1], last[2], last[3]]));
    if length + 12 > bytes {
        let rule = format!("the footer's length at the file's end exceeds the file's {bytes} bytes");
        return Err(damaged(&length.to_string(), place, &rule));
    }
    Ok((bytes, read(bytes - 8 - length, length + 8)?))
}
