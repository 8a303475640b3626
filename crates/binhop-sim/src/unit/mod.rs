//! Units: parts of a machine that act between the references of a stream.
//!
//! Much of what a memory system sees is in no trace: a TLB's refill, a page walk, the kernel's own footprint at a switch,
//! a device's transfer. A [`Unit`] makes such *injected* accesses, in each lane for itself, at the [`Occasion`]s that it
//! asks for. What it injects may differ from lane to lane; the occasion at which it may inject never does.
//!
//! Rules
//! - Preparation finds every moment of the stream at which an occasion may arise in some lane, and forgets there what its
//!   filters know of the lines that the unit may disturb ([`TouchedLines`](crate::occasion::TouchedLines)): only of those. Nothing travels back to it.
//! - A lane finds out whether the occasion arises in it: a page returns only where it was gone, a line is missed only where
//!   level 1 does not hold it. Only then it tells its unit. So what a unit hears depends on the stream and the placement
//!   alone, not on what is shared or dropped to be faster.
//! - At an occasion that names a page the page is resident in every lane. A lane places it first, tells of its first
//!   touch or its return, then of the port's change of page, then of the miss; then follows the access itself.
//! - An injected access never changes a page's time of last reference, which is the same in every lane; the page that an
//!   occasion names was referenced by the stream itself. No injected access makes a page resident.
//! - Instructions before an occasion have passed when it arises; a fetch run passes after its accesses.
//! - The pages a unit owns are the kernel's, in frames that are wired before the stream begins ([`binhop_os::Wired`]).

mod injector;

use std::fmt;
use std::sync::Arc;

use binhop_base::Result;

use crate::machine::Machine;
use crate::occasion::{Occasion, Subscription};

pub use injector::Injector;

/// A part of a machine that acts at occasions, in one lane.
pub trait Unit: Send {
    /// An occasion that this unit has asked for has arisen in its lane.
    ///
    /// # Errors
    /// Whatever may go wrong in it; the run stops. So does one whose unit disturbs what it did not ask to.
    fn act(&mut self, occasion: &Occasion, injector: &mut Injector<'_>) -> Result<()>;
}

/// Makes the unit of a lane: of this machine, under this seed.
pub type MakeUnit = dyn Fn(&Machine, u64) -> Box<dyn Unit> + Send + Sync;

/// A kind of unit: what all of them ask for, and what makes the one of each lane.
#[derive(Clone)]
pub struct Units {
    subscription: Arc<Subscription>,
    make: Arc<MakeUnit>,
}

impl Units {
    /// Units that ask for `subscription`, made by `make`.
    #[must_use]
    pub fn new(subscription: Subscription, make: Arc<MakeUnit>) -> Self {
        Self { subscription: Arc::new(subscription), make }
    }

    /// Returns the occasions that they ask for.
    #[must_use]
    pub fn subscription(&self) -> &Subscription {
        &self.subscription
    }

    /// The unit of a machine's lane with this seed.
    pub(crate) fn make(&self, machine: &Machine, seed: u64) -> InLane {
        InLane { subscription: Arc::clone(&self.subscription), unit: (self.make)(machine, seed) }
    }
}

impl fmt::Debug for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Units").field("asks", &self.subscription).finish_non_exhaustive()
    }
}

/// A lane's unit, and what it asks for.
pub(crate) struct InLane {
    pub(crate) subscription: Arc<Subscription>,
    pub(crate) unit: Box<dyn Unit>,
}
