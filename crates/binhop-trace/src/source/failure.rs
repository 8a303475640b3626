//! `Failure` repeats the first error of a source: the batches before an error are no whole trace.

use binhop_base::{Problem, Result};

/// `Failure` holds the error that ended a source. It is a field of the source.
#[derive(Clone, Debug, Default)]
pub struct Failure(Option<Box<Problem>>);

impl Failure {
    /// Calls `advance`, unless an earlier call failed. After a failure this returns the same error and does
    /// not touch the source. `field` finds the `Failure` of the source.
    ///
    /// # Errors
    /// The first error of `advance`.
    pub fn stays<S, T>(
        source: &mut S,
        field: fn(&mut S) -> &mut Self,
        advance: impl FnOnce(&mut S) -> Result<T>,
    ) -> Result<T> {
        if let Some(problem) = &field(source).0 {
            return Err(problem.clone());
        }
        advance(source).inspect_err(|problem| field(source).0 = Some(problem.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Counted` fails at its third call only.
    #[derive(Default)]
    struct Counted {
        calls: u64,
        failed: Failure,
    }

    impl Counted {
        fn next(&mut self) -> Result<u64> {
            Failure::stays(self, |source| &mut source.failed, Self::advance)
        }

        fn advance(&mut self) -> Result<u64> {
            self.calls += 1;
            if self.calls == 3 { Err(Problem::request("3", "source", "fails", "")) } else { Ok(self.calls) }
        }
    }

    #[test]
    fn no_batch_follows_an_error() {
        let mut source = Counted::default();
        assert_eq!((source.next().unwrap(), source.next().unwrap()), (1, 2));
        let first = source.next().unwrap_err();
        assert_eq!(source.next().unwrap_err().to_string(), first.to_string());
        assert_eq!(source.next().unwrap_err().to_string(), first.to_string());
        assert_eq!(source.calls, 3, "a source that has failed is not called again");
    }
}
