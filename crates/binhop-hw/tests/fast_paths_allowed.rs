//! Tests of the list of fast paths: what each path says of itself, and which trees it refuses.
#![allow(missing_docs, clippy::unwrap_used)]

use crate::common::{plain, resize, tree};
use binhop_base::{Agent, Agents};
use binhop_hw::{
    FastPath, FastPathSet, IndexBy, Next, Replacement, Rules, StreamConfig, TagBy, Tree, TreeConfig,
    WriteBufferConfig, WritePolicy,
};

/// Bytes of a page.
const PAGE: u64 = 256;

/// A tree that allows every path: two direct-mapped levels.
fn allowed() -> TreeConfig {
    let caches = vec![plain("l1", 64, 16, 1, Next::Cache(1)), plain("l2", 1024, 32, 1, Next::Memory)];
    tree(caches, PAGE, 0, 0)
}

fn why_not(path: FastPath, change: impl Fn(&mut TreeConfig)) -> Option<&'static str> {
    let mut config = allowed();
    change(&mut config);
    FastPath::of(&Tree::new(config)).why_not(path)
}

#[test]
fn every_path_says_what_it_is_and_is_allowed_somewhere() {
    for &path in FastPath::ALL {
        assert!(path.meaning().ends_with('.') && !path.name().contains(' '), "{path:?}");
        assert_eq!(why_not(path, |_| {}), None, "{path:?}");
        let off = FastPath::of(&Tree::new(allowed())).without(FastPathSet::NONE.with(path));
        assert_eq!(off.why_not(path), Some("switched off"));
        let others = FastPath::ALL.iter().filter(|&&other| other != path);
        assert!(others.into_iter().all(|&other| off.takes(other)));
    }
    assert!(FastPath::ALL.iter().all(|&path| FastPathSet::ALL.contains(path)));
}

fn prefetch(tree: &mut TreeConfig, cache: usize) {
    tree.caches[cache].streams = Some(StreamConfig { buffers: 4, depth: 4 });
    tree.agents = Agents::USER.with(Agent::Prefetch);
}

/// The cases are changes to the tree that allows every path, each with the paths that it leaves.
#[test]
fn each_path_refuses_the_trees_that_it_cannot_take() {
    use FastPath::{
        BackBits, Chain, DirectMapped, FrontBits, KnownHits, LaneBits, LruStack, TwoLevels, TwoPhase,
    };
    type Change = fn(&mut TreeConfig);
    let cases: &[(Change, &[FastPath])] = &[
        (|tree| tree.caches[1].inclusive = true, &[]),
        (
            |tree| {
                tree.caches[1].write = WritePolicy::Through;
                tree.caches[1].write_buffer =
                    Some(WriteBufferConfig { entries: 1, drain_cycles: 1, merge: false, stalls: true });
            },
            &[],
        ),
        (
            |tree| tree.agents = Agents::USER.with(Agent::Walk),
            &[TwoPhase, Chain, LaneBits, BackBits, TwoLevels],
        ),
        (|tree| tree.agents = Agents::USER.with(Agent::Device), &[TwoPhase, TwoLevels]),
        (|tree| tree.agents = Agents::USER.with(Agent::Walk).with(Agent::Kernel), &[TwoPhase, TwoLevels]),
        (|tree| prefetch(tree, 0), &[]),
        (|tree| prefetch(tree, 1), &[TwoPhase]),
        (
            |tree| tree.caches[0].write = WritePolicy::Through,
            &[Chain, DirectMapped, KnownHits, LruStack, BackBits],
        ),
        (|tree| tree.caches[0].allocate = false, &[Chain, DirectMapped, KnownHits, LruStack, BackBits]),
        (|tree| tree.caches[0].hashed = true, &[Chain, DirectMapped, KnownHits, LruStack, BackBits]),
        (
            |tree| resize(&mut tree.caches[0], 3, 4),
            &[Chain, DirectMapped, KnownHits, LruStack, BackBits, FrontBits],
        ),
        // The frame chooses the set in level 1.
        (
            |tree| resize(&mut tree.caches[0], 1, 32),
            &[TwoPhase, Chain, DirectMapped, KnownHits, LruStack, LaneBits, BackBits, TwoLevels],
        ),
        (
            |tree| {
                resize(&mut tree.caches[0], 2, 4);
                tree.caches[0].replacement = Replacement::Fifo;
            },
            &[Chain, DirectMapped, KnownHits, LruStack, BackBits],
        ),
        (
            |tree| resize(&mut tree.caches[0], 31, 4),
            &[Chain, DirectMapped, KnownHits, LruStack, BackBits, FrontBits],
        ),
        (|tree| resize(&mut tree.caches[0], 32, 4), &[Chain, DirectMapped, KnownHits, LruStack, BackBits]),
        (|tree| tree.caches[1].write = WritePolicy::Through, &[TwoPhase, LaneBits, FrontBits]),
        (|tree| tree.caches[1].allocate = false, &[TwoPhase, LaneBits, FrontBits]),
        (|tree| tree.caches[1].hashed = true, &[TwoPhase, Chain, LaneBits, FrontBits]),
        (
            |tree| resize(&mut tree.caches[1], 2, 16),
            &[TwoPhase, Chain, KnownHits, LruStack, LaneBits, BackBits, FrontBits],
        ),
        (
            |tree| resize(&mut tree.caches[1], 64, 16),
            &[TwoPhase, Chain, KnownHits, LaneBits, BackBits, FrontBits],
        ),
        (
            |tree| resize(&mut tree.caches[1], 1, 4),
            &[TwoPhase, Chain, KnownHits, LruStack, LaneBits, TwoLevels, FrontBits],
        ),
        (
            |tree| {
                resize(&mut tree.caches[1], 2, 16);
                tree.caches[1].replacement = Replacement::Srrip;
            },
            &[TwoPhase, Chain, LaneBits, FrontBits],
        ),
        (
            |tree| {
                resize(&mut tree.caches[1], 2, 16);
                tree.caches[1].replacement = Replacement::Fifo;
            },
            &[TwoPhase, Chain, KnownHits, LaneBits, BackBits, FrontBits],
        ),
        (|tree| tree.caches[1].replacement = Replacement::Srrip, FastPath::ALL),
        (
            |tree| {
                tree.caches[1].next = Next::Cache(2);
                tree.caches.push(plain("l3", 4096, 32, 1, Next::Memory));
            },
            &[TwoPhase, Chain, LaneBits, BackBits, FrontBits],
        ),
        // Each lane asks level 3 for other lines, so each has hits of its own there.
        (
            |tree| {
                tree.caches[1].next = Next::Cache(2);
                tree.caches.push(plain("l3", 4096, 32, 2, Next::Memory));
            },
            &[TwoPhase, Chain, LaneBits, FrontBits],
        ),
        // Each cache of level 1 asks a cache of its own.
        (
            |tree| {
                tree.caches.push(plain("l1d", 64, 16, 1, Next::Cache(3)));
                tree.caches.push(plain("l2d", 1024, 32, 1, Next::Memory));
                tree.data = 2;
            },
            &[TwoPhase, LaneBits, TwoLevels, FrontBits],
        ),
        // The data cache of level 1 asks memory.
        (
            |tree| {
                tree.caches.push(plain("l1d", 64, 16, 1, Next::Memory));
                tree.data = 2;
            },
            &[TwoPhase, Chain, KnownHits, LruStack, LaneBits, FrontBits],
        ),
        // The two caches of level 1 differ in shape.
        (
            |tree| {
                tree.caches.push(plain("l1d", 128, 16, 1, Next::Cache(1)));
                tree.data = 2;
            },
            &[Chain, DirectMapped, KnownHits, LruStack, LaneBits, BackBits, TwoLevels, FrontBits],
        ),
        (|tree| tree.caches[0].tag = TagBy::Asid, &[TwoPhase, TwoLevels]),
        // Both caches know global addresses.
        (
            |tree| {
                let caches = tree.caches.iter_mut();
                caches.for_each(|cache| (cache.index, cache.tag) = (IndexBy::Virtual, TagBy::Global));
            },
            &[TwoPhase, TwoLevels],
        ),
    ];
    for (number, (change, left)) in cases.iter().enumerate() {
        for &path in FastPath::ALL {
            let why = why_not(path, change);
            assert_eq!(why.is_none(), left.contains(&path), "case {number}, {}: {why:?}", path.name());
        }
    }
}

#[test]
fn cachegrinds_rules_allow_no_fast_path() {
    let caches = vec![
        plain("i1", 64, 16, 1, Next::Cache(2)),
        plain("d1", 64, 16, 1, Next::Cache(2)),
        plain("ll", 1024, 16, 1, Next::Memory),
    ];
    let config = TreeConfig { rules: Rules::Cachegrind, ..tree(caches, PAGE, 0, 1) };
    let paths = FastPath::of(&Tree::new(config));
    assert!(FastPath::ALL.iter().all(|&path| paths.why_not(path).unwrap().contains("cachegrind")));
}
