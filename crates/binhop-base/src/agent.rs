//! An agent is a part of a system that makes accesses.
//!
//! An agent answers two independent questions. [`Agent::counts_in_mpi`] tells whether its misses count in
//! MPI. [`Agent::is_waited_for`] tells whether the processor waits for it. A page walk is waited for, and
//! executes no instruction.

macro_rules! agents {
    ($($name:ident = $text:literal, mpi $mpi:literal, waited $waited:literal, $doc:literal;)*) => {
        /// `Agent` names the part of the system that makes an access. The [`Kind`](crate::Kind) names the
        /// access's purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Agent { $(#[doc = $doc] $name,)* }

        impl Agent {
            /// Every agent, in the order of their discriminants.
            pub const ALL: &'static [Agent] = &[$(Agent::$name,)*];
            /// Returns the agent's part of a metric's name, before the kind (`l2.walk.load.misses`). The
            /// user's part is left out of the metric.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Agent::$name => $text,)* }
            }
            /// Returns whether the agent's demand misses count in MPI. MPI is misses per instruction, so the
            /// agent must execute instructions.
            #[must_use]
            pub const fn counts_in_mpi(self) -> bool {
                match self { $(Agent::$name => $mpi,)* }
            }
            /// Returns whether the processor waits until the agent's access is done. An access that is not
            /// waited for costs no cycle, but changes the caches at once.
            #[must_use]
            pub const fn is_waited_for(self) -> bool {
                match self { $(Agent::$name => $waited,)* }
            }
            /// Returns a description of the agent, for the glossary.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Agent::$name => $doc,)* }
            }
        }
    };
}

agents! {
    User = "user", mpi true, waited true, "The program.";
    Kernel = "kernel", mpi true, waited true, "The operating system, on behalf of a process.";
    Handler = "handler", mpi true, waited true, "Software that refills a TLB or translates a missing line.";
    Walk = "walk", mpi false, waited true, "Hardware that reads page tables; it executes no instruction.";
    Device = "device", mpi false, waited false, "A device that reads or writes memory by itself.";
    Prefetch = "prefetch", mpi false, waited false, "Hardware that asks for lines ahead of their use.";
}

/// `Agents` is a set of agents. The user is always in the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Agents(u8);

impl Agents {
    /// The set in which the user is the only agent.
    pub const USER: Self = Self(1 << Agent::User as u8);

    /// Returns the set with another agent added.
    #[must_use]
    pub const fn with(self, agent: Agent) -> Self {
        Self(self.0 | 1 << agent as u8)
    }

    /// Returns whether an agent is in the set.
    #[must_use]
    pub const fn contains(self, agent: Agent) -> bool {
        self.0 & 1 << agent as u8 != 0
    }

    /// Returns the agents other than the user, in order.
    pub fn others(self) -> impl Iterator<Item = Agent> {
        Agent::ALL.iter().copied().filter(move |&agent| agent != Agent::User && self.contains(agent))
    }

    /// Returns the position of an agent among [`Agents::others`]. The user, and an agent that is not in the
    /// set, have no position.
    #[inline]
    #[must_use]
    pub fn place(self, agent: Agent) -> Option<usize> {
        let before = self.0 & ((1 << agent as u8) - 1) & !Self::USER.0;
        (agent != Agent::User && self.contains(agent)).then_some(before.count_ones() as usize)
    }
}

impl Default for Agents {
    fn default() -> Self {
        Self::USER
    }
}

impl FromIterator<Agent> for Agents {
    fn from_iter<I: IntoIterator<Item = Agent>>(agents: I) -> Self {
        agents.into_iter().fold(Self::USER, Self::with)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::{Agent, Agents};
    use alloc::vec::Vec;

    #[test]
    fn every_agent_has_a_name_of_its_own_and_is_explained() {
        for (number, &agent) in Agent::ALL.iter().enumerate() {
            assert_eq!(agent as usize, number);
            assert!(agent.meaning().ends_with('.'), "{agent:?}");
            assert_eq!(Agent::ALL.iter().filter(|other| other.name() == agent.name()).count(), 1);
        }
    }

    #[test]
    fn mpi_and_waiting_are_two_questions() {
        let agents = |asked: fn(Agent) -> bool| -> Vec<Agent> {
            Agent::ALL.iter().copied().filter(|&agent| asked(agent)).collect()
        };
        assert_eq!(agents(Agent::counts_in_mpi), [Agent::User, Agent::Kernel, Agent::Handler]);
        assert_eq!(agents(Agent::is_waited_for), [Agent::User, Agent::Kernel, Agent::Handler, Agent::Walk]);
    }

    #[test]
    fn a_set_knows_each_agent_s_place() {
        let none = Agents::USER;
        assert_eq!(
            (none.others().count(), none.place(Agent::User), none.place(Agent::Walk)),
            (0, None, None)
        );
        let some: Agents = [Agent::Device, Agent::Kernel, Agent::Walk].into_iter().collect();
        assert!(some.contains(Agent::User) && !some.contains(Agent::Prefetch));
        let places: Vec<_> = some.others().map(|agent| some.place(agent)).collect();
        assert_eq!(places, [Some(0), Some(1), Some(2)]);
        assert_eq!(some.place(Agent::Handler), None);
    }
}
