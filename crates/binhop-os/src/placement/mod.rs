//! Placement: choosing the frame for a page. Each policy is one file of this module and one word in the
//! list below; names, help, parameters, documentation and tests derive from it.
//!
//! To add one: write `name.rs` with its rule, its source, its state and cost, its [`Policy`] and its tests,
//! and put its name into the list. A policy that looks at bins declares what it asks
//! ([`PoolPolicy::bin_counts`](crate::PoolPolicy::bin_counts)); the pool then keeps it up to date, and a decision costs what it reads. (A placement costs
//! more, to keep the pool exact, whatever the policy: see `frame/lru.rs`.) A policy with free lists and victims
//! of its own is an [`Allocator`](crate::Allocator).

#[cfg(test)]
mod bench;
mod color;
mod policy;
mod recording;
mod settings;

pub use color::fibonacci;
pub use policy::{LaneBytes, Manner, Own, Policy};
pub use recording::Recording;
pub use settings::{Parameter, Settings};

pub use crate::{Draws, PoolPolicy as Placement};

macro_rules! policies {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*

        /// Every placement policy, in the order in which they are shown.
        pub static POLICIES: &[&Policy] = &[$(&$module::POLICY),*];
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

/// The policy of this name.
#[must_use]
pub fn policy(name: &str) -> Option<&'static Policy> {
    POLICIES.iter().find(|policy| policy.name == name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StateScope;

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
            let settings = Settings::new(64, 8);
            if let Some(instance) = listed.build(&settings) {
                assert_eq!(instance.name(), listed.name);
                let asks = instance.bin_counts();
                assert_eq!(
                    asks.is_some_and(|asks| asks.used.is_some()),
                    listed.uses("sharing") && listed.name != "page-coloring-offset"
                );
                assert_eq!(asks.is_some(), listed.uses("bins"), "{}", listed.name);
                let by_space = Settings { sharing: StateScope::Space, ..settings.clone() };
                assert_eq!(listed.reads_segments(&settings), asks.is_some_and(|asks| asks.used.is_some()));
                assert!(!listed.reads_segments(&by_space), "{}", listed.name);
            }
            let frames = listed.frames(&settings, 0).unwrap();
            assert_eq!(frames.frames(), (listed.name != "identity").then_some(64));
        }
        assert!(policy("randon").is_none());
    }
}
