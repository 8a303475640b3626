//! `read` reads the recorder's pipe from bytes: it decodes them, or refuses them with a reason. The fuzz target `pipe`
//! and the test of the corpus call this function.

use binhop_record::{FetchRows, read_pipe};

/// Reads the words of one process image with both kinds of fetch rows.
pub fn read(bytes: &[u8]) {
    let run = read_pipe(bytes, FetchRows::Run);
    let instruction = read_pipe(bytes, FetchRows::Instruction);
    match (run, instruction) {
        (Ok(runs), Ok(instructions)) => assert!(runs <= instructions, "a run is at least one instruction"),
        (Err(one), Err(other)) => assert!(one == other && one.starts_with("word "), "{one}; {other}"),
        (one, other) => panic!("{one:?}, {other:?}"),
    }
}
