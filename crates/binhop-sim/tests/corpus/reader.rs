//! `read` gives bytes to the machine parser. The parser makes a machine whose resolved description makes the
//! same machine, or it refuses the bytes with a reason. The fuzz target `machine` calls `read`, and so does
//! the test that walks the corpus.

use binhop_sim::Machine;

/// Reads a machine description. The lines after the first line `--set` are settings.
pub fn read(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (toml, settings) = text.split_once("\n--set\n").unwrap_or((text, ""));
    // A file that a description names has a reader and tests of its own.
    if toml.contains("file") || settings.contains("file") {
        return;
    }
    let settings: Vec<String> = settings.lines().map(str::to_string).collect();
    match Machine::parse(toml, "machine.toml", &settings) {
        Ok(machine) => {
            let again =
                Machine::parse(&machine.resolved(), "resolved", &[]).expect("what it resolves to is read");
            assert_eq!(machine.tree().config(), again.tree().config());
            assert_eq!((machine.memory(), machine.placement()), (again.memory(), again.placement()));
        }
        Err(problem) => assert!(!problem.rule.is_empty() && !problem.remedy.is_empty(), "{problem}"),
    }
}
