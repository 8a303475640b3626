//! This example imports a foreign trace:
//! `cargo run --release -p binhop-trace --example import -- lackey - sort.parquet [THREADS]`.

use std::path::Path;

use binhop_trace::copy;
use binhop_trace::import;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let threads = arguments.get(3).map_or(Some(1), |text| text.parse().ok());
    let ([format, input, output] | [format, input, output, _], Some(threads)) =
        (arguments.as_slice(), threads)
    else {
        eprintln!("usage: import FORMAT FILE|- OUT.parquet [THREADS]");
        std::process::exit(2);
    };
    let outcome = import::open(input, Some(format)).and_then(|mut importer| {
        let written = copy(importer.as_mut(), Path::new(output), threads, None, &mut |_| Ok(()))?;
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
