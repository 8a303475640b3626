//! Imports a foreign trace: `cargo run --release -p binhop-trace --example import -- lackey - sort.parquet`.

use std::path::Path;

use binhop_trace::import;
use binhop_trace::write::copy;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [format, input, output] = arguments.as_slice() else {
        eprintln!("usage: import FORMAT FILE|- OUT.parquet");
        std::process::exit(2);
    };
    let outcome = import::open(input, Some(format)).and_then(|mut importer| {
        let written = copy(importer.as_mut(), Path::new(output), &mut |_| Ok(()))?;
        Ok((importer.notes(), written))
    });
    match outcome {
        Ok((notes, written)) => {
            for note in notes {
                eprintln!("{input}: {note}");
            }
            let totals = &written.totals;
            println!(
                "{output}: {} references, {} instructions, {} rows, {} bytes",
                totals.references,
                totals.instructions,
                totals.rows(),
                written.bytes
            );
        }
        Err(problem) => {
            eprintln!("{problem}");
            std::process::exit(2);
        }
    }
}
