//! `CallPosition` aligns a recorded process with its native run by the system calls that the process makes.
//!
//! A recorded process makes the calls of its native run, and some more (without a vDSO, reading the clock is
//! a call; a loader may take another path). So a recorded call is the next native call, or it is a call of
//! the recording alone. Sometimes three recorded calls in a row are not the next native calls, but occur in a
//! row a little later in the native run. Then the native run made calls that were not recorded, and the
//! position moves past them.

/// The number of recorded calls that must agree in a row before native calls are skipped.
const AGREE: usize = 3;
/// The number of native calls that are searched.
const AHEAD: usize = 64;

/// `CallPosition` is a process's position in its native calls.
#[derive(Clone, Debug, Default)]
pub(super) struct CallPosition {
    /// The number of native calls passed.
    pub(super) at: usize,
    /// The number of recorded calls that were native calls.
    pub(super) matched: u64,
    /// The last recorded calls that were not native calls.
    strays: Vec<u32>,
}

impl CallPosition {
    /// Handles a call of the process. Returns whether it is a call of the native run.
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
    fn calls_of_the_recording_alone_are_skipped() {
        assert_eq!(follow(&[1, 2, 3, 4], &[1, 2, 3, 4]), (4, 4));
        assert_eq!(follow(&[1, 2, 3, 4], &[9, 1, 228, 2, 228, 228, 3, 4]), (4, 4));
    }

    #[test]
    fn calls_of_the_native_run_alone_are_skipped_once_three_agree() {
        assert_eq!(follow(&[1, 7, 2, 3, 4, 5], &[1, 2, 3]), (1, 1));
        assert_eq!(follow(&[1, 7, 2, 3, 4, 5], &[1, 2, 3, 4, 5]), (6, 5));
        assert_eq!(follow(&[1, 7, 2, 3], &[1, 2, 5, 3, 6, 2, 3]), (1, 1));
        assert_eq!(follow(&[], &[1, 2, 3, 4]), (0, 0));
    }
}
