//! Where a recorded process is in its native run, told by the system calls it makes.
//!
//! A recorded process makes the calls of its native run, and some more (no vDSO: the time is a call; another path
//! of a loader). So each recorded call is the native one that comes next, or none. If three recorded calls in a row are
//! no next ones, but stand in a row a little further on in the native run, the native run made calls that were not
//! recorded, and is followed from there.

/// Recorded calls that must agree in a row before native ones are passed over.
const AGREE: usize = 3;
/// Native calls that are looked at.
const AHEAD: usize = 64;

/// A process's place in its native calls.
#[derive(Clone, Debug, Default)]
pub(super) struct CallPosition {
    /// Native calls passed.
    pub(super) at: usize,
    /// Recorded calls that were native ones.
    pub(super) matched: u64,
    /// The recorded calls since the last that was.
    strays: Vec<u32>,
}

impl CallPosition {
    /// The process makes a call: whether it is one of the native run.
    pub(super) fn enters(&mut self, number: u32, native: &[(u32, u64)]) -> bool {
        if native.get(self.at).is_some_and(|&(next, _)| next == number) {
            self.at += 1;
            self.matched += 1;
            self.strays.clear();
            return true;
        }
        self.strays.push(number);
        let Some(from) = self.strays.len().checked_sub(AGREE) else { return false };
        let row = &self.strays[from..];
        let ahead = &native[self.at.min(native.len())..native.len().min(self.at + AHEAD)];
        let found =
            ahead.windows(AGREE).position(|calls| calls.iter().map(|call| call.0).eq(row.iter().copied()));
        if let Some(found) = found {
            self.at += found + AGREE;
            self.matched += AGREE as u64;
            self.strays.clear();
        } else {
            self.strays.drain(..from);
        }
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(native: &[u32], recorded: &[u32]) -> (usize, u64) {
        let native: Vec<(u32, u64)> = native.iter().map(|&number| (number, 0)).collect();
        let mut position = CallPosition::default();
        recorded.iter().for_each(|&number| {
            position.enters(number, &native);
        });
        (position.at, position.matched)
    }

    #[test]
    fn calls_that_only_the_recording_has_are_passed_over() {
        assert_eq!(follow(&[1, 2, 3, 4], &[1, 2, 3, 4]), (4, 4));
        assert_eq!(follow(&[1, 2, 3, 4], &[9, 1, 228, 2, 228, 228, 3, 4]), (4, 4));
    }

    #[test]
    fn calls_that_only_the_native_run_has_are_passed_over_once_three_agree() {
        assert_eq!(follow(&[1, 7, 2, 3, 4, 5], &[1, 2, 3]), (1, 1));
        assert_eq!(follow(&[1, 7, 2, 3, 4, 5], &[1, 2, 3, 4, 5]), (6, 5));
        assert_eq!(follow(&[1, 7, 2, 3], &[1, 2, 5, 3, 6, 2, 3]), (1, 1));
        assert_eq!(follow(&[], &[1, 2, 3, 4]), (0, 0));
    }
}
