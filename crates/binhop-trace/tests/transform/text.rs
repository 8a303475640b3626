//! These tests check events as text.

use binhop_trace::event::Event;
use binhop_trace::import;
use binhop_trace::input::Input;
use binhop_trace::text::{self, LineFormat};
use proptest::prelude::*;

use super::{CASES, events, meta, source};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn text_is_read_back(all in events(), batch in 1..40_usize) {
        let mut written = Vec::new();
        let failed = |_: &std::io::Error| unreachable!("memory takes everything");
        text::write(&mut *source(&all, batch), LineFormat::Text, true, &mut written, &failed, &mut || Ok(())).unwrap();
        let text = String::from_utf8(written).unwrap();
        let input = Input::from_reader("text", std::io::Cursor::new(text.clone())).unwrap();
        let mut importer = (import::format("text").unwrap().open)(input).unwrap();
        let mut read = Vec::new();
        loop {
            match importer.next_batch() {
                Ok(Some(batch)) => read.extend((0..batch.len()).map(|row| Event::of(&batch, row))),
                Ok(None) => break,
                Err(problem) => {
                    prop_assert_eq!(&problem.rule, "a trace holds at least one reference");
                    return Ok(());
                }
            }
        }
        prop_assert_eq!(read, all, "{}", text);
        prop_assert_eq!(importer.meta(), &meta());
    }
}
