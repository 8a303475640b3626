//! Placement: choosing the frame for a page. Each policy is one file of this module and one word in the
//! list below; names, help, parameters, documentation and tests derive from it.
//!
//! To add one: write `name.rs` with its rule, its source, its state and cost, its [`Policy`] and its tests,
//! and put its name into the list. A policy that looks at bins declares how many ([`Placement::bins`]) and
//! then asks the pool ([`Pool::available`], [`Pool::oldest_in`], [`Pool::used`]): page-coloring, bin-hopping,
//! sequential and hierarchical need nothing else. A policy with lists and victims of its own (colored lists)
//! is another [`Manner`].

use alloc::boxed::Box;

use binhop_base::{Domain, FrameNo, PowerOfTwo, Result, Rng, Stream};

use crate::{Pool, Request};

macro_rules! policies {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*

        /// Every placement policy, in the order in which they are shown.
        pub static POLICIES: &[&Policy] = &[$(&$module::POLICY),*];
    };
}

policies!(identity, random, first);

/// A policy that picks from the pool. One instance serves one lane.
pub trait Placement: Send {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// The number of bins by which it asks the pool, if it does: counts by bin are kept only then.
    fn bins(&self) -> Option<PowerOfTwo> {
        None
    }

    /// The frame for a page: one of the pool. What it still holds is evicted.
    ///
    /// # Errors
    /// Whatever may go wrong in a policy that is not built in; the run stops.
    fn choose(&mut self, request: &Request, pool: &Pool<'_>, draws: Draws) -> Result<FrameNo>;
}

/// The random numbers of one fault: functions of the lane's seed and of the fault's ordinal, so that
/// policies compared under one seed meet equal luck.
#[derive(Clone, Copy, Debug)]
pub struct Draws {
    rng: Rng,
    fault: u64,
}

impl Draws {
    pub(crate) fn new(rng: Rng, fault: u64) -> Self {
        Self { rng, fault }
    }

    /// The ordinal of the fault in its lane, from 0.
    #[must_use]
    pub fn fault(self) -> u64 {
        self.fault
    }

    /// A number below `n` (at least 1). `sub` tells apart the draws of one fault (a level of a tree, say).
    #[inline]
    #[must_use]
    pub fn below(self, sub: u64, n: u64) -> u64 {
        self.rng.below(Stream::new(Domain::Placement, sub), self.fault, n)
    }
}

/// What is known of a policy before a run.
#[derive(Debug)]
pub struct Policy {
    /// What users write in `placement.policy`.
    pub name: &'static str,
    /// The rule, in a sentence.
    pub rule: &'static str,
    /// Where it comes from: document and section, or "binhop".
    pub source: &'static str,
    /// The state it keeps and what one placement costs.
    pub cost: &'static str,
    /// The keys under `placement` that it uses; others are legal and change nothing.
    pub parameters: &'static [Parameter],
    /// How it gets its frames.
    pub manner: Manner,
}

/// A key under `placement` in a machine file.
#[derive(Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The key.
    pub name: &'static str,
    /// What its value counts.
    pub unit: &'static str,
    /// What it means, in a sentence.
    pub meaning: &'static str,
}

/// How a policy gets its frames.
#[derive(Clone, Copy, Debug)]
pub enum Manner {
    /// It picks from the pool of the least recently used: [`Frames::new`](crate::Frames::new).
    Pool(fn() -> Box<dyn Placement>),
    /// Physical = virtual: [`Frames::identity`](crate::Frames::identity) and [`Spaces::identity`](crate::Spaces::identity).
    Identity,
}

const POOL: Parameter = Parameter {
    name: "pool",
    unit: "bytes",
    meaning: "The least recently used frames from which a placement chooses, even while all of memory is unused.",
};

impl Policy {
    /// An instance for one lane, if it picks from a pool.
    #[must_use]
    pub fn build(&self) -> Option<Box<dyn Placement>> {
        match self.manner {
            Manner::Pool(build) => Some(build()),
            Manner::Identity => None,
        }
    }

    /// Whether the seed changes anything: at least the order in which the list of frames starts.
    #[must_use]
    pub const fn is_random(&self) -> bool {
        matches!(self.manner, Manner::Pool(_))
    }
}

/// The policy of this name.
#[must_use]
pub fn policy(name: &str) -> Option<&'static Policy> {
    POLICIES.iter().find(|policy| policy.name == name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_of_the_list_is_found_described_and_called_by_its_name() {
        for listed in POLICIES {
            assert!(
                core::ptr::eq(policy(listed.name).unwrap(), *listed),
                "two policies named {}",
                listed.name
            );
            let kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(!listed.name.is_empty() && listed.name.chars().all(kebab), "{}", listed.name);
            for text in [listed.rule, listed.source, listed.cost] {
                assert!(text.len() >= 6, "{}: {text:?} says nothing", listed.name);
            }
            assert!(listed.rule.ends_with('.') && listed.cost.ends_with('.'), "{}", listed.name);
            for parameter in listed.parameters {
                assert!(!parameter.unit.is_empty() && parameter.meaning.ends_with('.'), "{parameter:?}");
            }
            if let Some(instance) = listed.build() {
                assert_eq!(instance.name(), listed.name);
            }
        }
        assert!(policy("randon").is_none());
    }
}
