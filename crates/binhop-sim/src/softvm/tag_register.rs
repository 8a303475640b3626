//! `TagRegister` is what the hardware keeps between the two instructions that insert a line (JM97 §4.1).

use super::Entry;

/// `TagRegister` holds the operand of SPECIFYVTAG until LOAD&MAP takes it.
///
/// The tag must arrive before the data. A pair is not interrupted by another pair (ours: a second SPECIFYVTAG is
/// refused). The miss of a user entry's line is a pair of its own, which ends before the handler specifies the tag of
/// the program's line.
#[derive(Clone, Debug, Default)]
pub(crate) struct TagRegister(Option<Entry>);

impl TagRegister {
    /// Executes SPECIFYVTAG: the data of the next LOAD&MAP get the tag of this line.
    ///
    /// # Errors
    /// A pair is open: its SPECIFYVTAG had no LOAD&MAP yet. The error is the line of the open pair's tag.
    pub(crate) fn specify(&mut self, line: Entry) -> Result<(), Entry> {
        match self.0 {
            Some(open) => Err(open),
            None => {
                self.0 = Some(line);
                Ok(())
            }
        }
    }

    /// Executes LOAD&MAP: returns the line whose tag the data get; `None` if no tag was specified.
    pub(crate) fn load_and_map(&mut self) -> Option<Entry> {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binhop_base::MappingId;

    #[test]
    fn pairs_are_in_order_and_do_not_nest() {
        let [program, user] = [3, 7].map(|mapping| Entry { mapping: MappingId(mapping), offset: 64 });
        let mut register = TagRegister::default();
        assert_eq!(register.load_and_map(), None);
        assert_eq!(register.specify(program), Ok(()));
        assert_eq!(register.load_and_map(), Some(program));
        assert_eq!(register.specify(user), Ok(()));
        assert_eq!(register.specify(program), Err(user));
        assert_eq!(register.load_and_map(), Some(user));
    }
}
