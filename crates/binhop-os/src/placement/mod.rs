//! Placement chooses the frame for a page. Each policy is one file of this module and one word in the list
//! below. Names, help, parameters, documentation and tests derive from the list.
//!
//! To add a policy, write `name.rs` with its rule, source, state, cost, [`Policy`] and tests, and put its
//! name into the list. Tests then name what else the policy needs. A policy that reads counts by bin declares
//! them ([`PoolPolicy::bin_counts`](crate::PoolPolicy::bin_counts)); the pool keeps them up to date, and a
//! decision costs what it reads. A placement costs more, because the pool must be exact, whatever the policy
//! is (see `frame/lru.rs`). A policy whose rank depends on draws alone says so
//! ([`PoolPolicy::rank`](crate::PoolPolicy::rank)); its placements cost less. A policy with free lists and victims of
//! its own is an [`Allocator`](crate::Allocator).

#[cfg(test)]
mod bench;
mod color;
mod policy;
mod recording;
mod runs;
mod settings;

pub use color::{PageColors, fibonacci};
pub use policy::{AllocatorPolicy, LaneBytes, Mechanism, Policy};
pub use recording::Recording;
pub use settings::Settings;

macro_rules! policies {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*

        /// Every placement policy, in the order in which lists show them.
        pub static POLICIES: &[&Policy] = &[$(&$module::POLICY),*];

        /// The module of each policy.
        #[cfg(test)]
        const MODULES: &[&str] = &[$(stringify!($module)),*];
    };
}

policies!(
    identity,
    first,
    random,
    page_coloring_equal,
    page_coloring_pid_hash,
    page_coloring_offset,
    bin_hopping,
    sequential,
    hierarchical,
    colored_lists,
    buddy,
    recorded,
);

/// Returns the policy with a name.
#[must_use]
pub fn policy(name: &str) -> Option<&'static Policy> {
    POLICIES.iter().find(|policy| policy.name == name).copied()
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::StateScope;

    /// Every message names the file to touch.
    #[test]
    fn every_policy_describes_itself_and_declares_what_it_asks() {
        for (listed, module) in POLICIES.iter().zip(MODULES) {
            let name = listed.name;
            let file = format!("crates/binhop-os/src/placement/{module}.rs");
            assert_eq!(name, module.replace('_', "-"), "{file}: the policy has the name of its file");
            assert!(core::ptr::eq(policy(name).unwrap(), *listed), "{file}: two policies are named {name}");
            for (field, text) in [("rule", listed.rule), ("source", listed.source), ("cost", listed.cost)] {
                assert!(text.len() >= 6, "{file}: {field} {text:?} says nothing");
                assert!(field == "source" || text.ends_with('.'), "{file}: {field} ends with a full stop");
            }
            let settings = Settings::new(64, 8);
            if let Some(instance) = listed.build(&settings) {
                assert_eq!(instance.name(), name, "{file}: `PoolPolicy::name` is POLICY.name");
                let counts = instance.bin_counts();
                let asks_used = counts.is_some_and(|counts| counts.used.is_some());
                assert_eq!(
                    counts.is_some(),
                    listed.uses("bins"),
                    "{file}: a policy declares `bin_counts` if and only if BINS is among its parameters"
                );
                assert!(
                    !asks_used || listed.uses("sharing"),
                    "{file}: a policy that asks for used frames has SHARING among its parameters"
                );
                assert_eq!(listed.reads_segments(&settings), asks_used, "{file}");
                let by_space = Settings { sharing: StateScope::Space, ..settings.clone() };
                assert!(!listed.reads_segments(&by_space), "{file}: `bin_counts` follows Settings::sharing");
            }
            let frames = listed.frames(&settings, 0).unwrap();
            assert_eq!(frames.frames(), (name != "identity").then_some(64), "{file}");
        }
        assert!(policy("randon").is_none());
    }
}
