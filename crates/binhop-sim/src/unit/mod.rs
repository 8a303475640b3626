//! Units are parts of a machine that act between the references of a stream.
//!
//! A memory system serves many accesses that stand in no trace: the refill of a TLB, a page walk, the kernel's
//! own footprint at a switch, a device's transfer. A [`Unit`] makes such *injected* accesses, in each lane for
//! itself, at the [`Occasion`]s for which it asks. The accesses may differ from lane to lane. The moments of the stream
//! at which a unit may make accesses are the same in every lane.
//!
//! Rules
//! - Preparation finds every moment of the stream at which an occasion may arise in some lane. There its filters forget
//!   the lines that the unit may touch ([`TouchedLines`](crate::occasion::TouchedLines)), and no other lines. Lanes
//!   send nothing back to preparation.
//! - A lane finds out whether the occasion arises in it. A page returns only in a lane that had evicted it, and a line
//!   is missed only in a lane whose level 1 does not hold it. Only then the lane calls its unit. What a unit hears
//!   therefore depends on the stream and the placement alone, not on what is shared or skipped for speed.
//! - At an occasion that names a page, the page is resident in every lane. A lane places the page, then reports its
//!   first touch or its return, then the port's change of page, then the miss. The access itself follows.
//! - An injected access never changes a page's time of last reference, which is the same in every lane. The stream
//!   itself references the page that an occasion names. No injected access makes a page resident.
//! - Instructions before an occasion have been executed when it arises. A fetch run is executed after its accesses.
//! - The pages that a unit owns belong to the kernel. Their frames are wired before the stream begins
//!   ([`binhop_os::WiredKind`]).

mod device;
mod injector;
mod kernel;
mod left_lines;

use std::fmt;
use std::sync::Arc;

use binhop_base::Result;

use crate::machine::Machine;
use crate::occasion::{Occasion, Subscription};

pub(crate) use device::device_units;
pub use injector::Injector;
pub(crate) use injector::{PrivateSide, SharedCaches};
pub(crate) use kernel::kernel_units;
pub(crate) use left_lines::{LeftLine, LeftLines};

/// `Unit` is a part of a machine that acts at occasions, in one lane.
pub trait Unit: Send {
    /// Acts at an occasion for which the unit asks, and which has arisen in its lane.
    ///
    /// # Errors
    /// An error of the unit stops the run. The injector returns an error if the unit touches lines for which it did not
    /// ask.
    fn act(&mut self, occasion: &Occasion, injector: &mut Injector<'_>) -> Result<()>;
}

/// `MakeUnit` makes the unit of a lane, for a machine and a seed. Several threads call it, in any order.
pub type MakeUnit = dyn Fn(&Machine, u64) -> Box<dyn Unit> + Send + Sync;

/// `Units` are the units of a run: what all of them ask for, and the function that makes the unit of each lane.
#[derive(Clone)]
pub struct Units {
    subscription: Arc<Subscription>,
    make: Arc<MakeUnit>,
}

impl Units {
    /// Returns units that ask for `subscription` and that `make` makes.
    #[must_use]
    pub fn new(subscription: Subscription, make: Arc<MakeUnit>) -> Self {
        Self { subscription: Arc::new(subscription), make }
    }

    /// Returns the subscription of the units.
    #[must_use]
    pub fn subscription(&self) -> &Subscription {
        &self.subscription
    }

    /// Makes the unit of a machine's lane with this seed.
    pub(crate) fn make(&self, machine: &Machine, seed: u64) -> InLane {
        InLane { subscription: Arc::clone(&self.subscription), unit: (self.make)(machine, seed) }
    }
}

impl fmt::Debug for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Units").field("subscription", &self.subscription).finish_non_exhaustive()
    }
}

/// `InLane` is the unit of a lane, with its subscription.
pub(crate) struct InLane {
    pub(crate) subscription: Arc<Subscription>,
    pub(crate) unit: Box<dyn Unit>,
}
