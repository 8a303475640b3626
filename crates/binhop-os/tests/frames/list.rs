//! Frames and the plain list agree on random references and deaths of pages.

use proptest::prelude::*;

use crate::harness::{Harness, Rule};

#[derive(Clone, Debug)]
enum Step {
    Touch(u32),
    /// The page dies. Its number never comes back, so the next touch of its place is a new page.
    Die(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![20 => (0..40u32).prop_map(Step::Touch), 1 => (0..40u32).prop_map(Step::Die)];
    // Footprints reach from a few pages to many times memory.
    (1..40u32, proptest::collection::vec(step, 1..400)).prop_map(|(footprint, mut steps)| {
        for step in &mut steps {
            let (Step::Touch(page) | Step::Die(page)) = step;
            *page %= footprint;
        }
        steps
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn placements_evictions_and_pools_equal_the_plain_list(
        (size, pool) in prop_oneof![3 => 1..20u64, 1 => 20..40u64]
            .prop_flat_map(|size| (Just(size), prop_oneof![1..=size, Just(size), Just(1)])),
        rule in prop_oneof![Just(Rule::Random), Just(Rule::First), Just(Rule::Last)],
        seed in 0..1000u64,
        note_first in any::<bool>(),
        steps in steps(),
    ) {
        let mut harness = Harness::new(size, pool, seed, rule);
        harness.note_first = note_first;
        let mut number: Vec<u32> = (0..40).collect();
        let mut pages = 40;
        for step in steps {
            match step {
                Step::Touch(place) => {
                    harness.touch(number[place as usize]);
                }
                Step::Die(place) => {
                    harness.release(number[place as usize]);
                    number[place as usize] = pages;
                    pages += 1;
                }
            }
            harness.check(pages);
        }
    }
}
