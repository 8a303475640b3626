//! The recorder's pipe as a function of bytes: it is understood, or refused with a reason. The fuzz target `pipe` calls this,
//! and so does the test that walks the corpus.

use binhop_record::{FetchRows, read_pipe};

/// Reads what one process image wrote, both ways.
pub fn read(bytes: &[u8]) {
    let run = read_pipe(bytes, FetchRows::Run);
    let instruction = read_pipe(bytes, FetchRows::Instruction);
    match (run, instruction) {
        (Ok(runs), Ok(instructions)) => assert!(runs <= instructions, "a run is at least one instruction"),
        (Err(one), Err(other)) => assert!(one == other && one.starts_with("word "), "{one}; {other}"),
        (one, other) => panic!("{one:?}, {other:?}"),
    }
}
