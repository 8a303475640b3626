//! The machine parser as a function of bytes: it makes a machine that its resolved description makes again, or refuses
//! with a reason. The fuzz target `machine` calls this, and so does the test that walks the corpus.

use binhop_sim::Machine;

/// Reads a machine description; lines after the first that is `--set` are settings.
pub fn read(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (toml, settings) = text.split_once("\n--set\n").unwrap_or((text, ""));
    // A file that a description names is another reader's business.
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
