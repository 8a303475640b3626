//! `Clock` tells the time of a lane.

/// `Clock` is a lane's clock in cycles, and the instructions that have passed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    pub(crate) now: u64,
    instructions: u64,
}

impl Clock {
    /// Lets instructions pass, at one cycle each.
    pub(crate) fn pass(&mut self, instructions: u64) {
        self.now += instructions;
        self.instructions += instructions;
    }

    /// Sets the clock to cycle `now`, after instructions have passed and the processor has waited.
    pub(super) fn come_to(&mut self, now: u64, waited: u64) {
        self.instructions += now - self.now - waited;
        self.now = now;
    }

    /// Brings the clock to the stream's count of instructions.
    pub(crate) fn reach(&mut self, instructions: u64) {
        self.pass(instructions - self.instructions);
    }
}
