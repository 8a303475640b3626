//! Tests of the replacement policies as textbook tables: one access per line, the expected victim, and the contents
//! of the set after the access.

use crate::common::{ByUser, World, plain, tree};
use binhop_base::{Agent, Kind, LineAddr, Rng};
use binhop_hw::{CacheConfig, Computer, Next, Replacement, Tree};

/// One set of `ways` lines of 16 bytes. Line X of the tables is line 0 of page X − 'A'.
struct OneSet {
    computer: Computer,
    world: World,
}

impl OneSet {
    fn new(ways: u32, replacement: Replacement) -> Self {
        let config = CacheConfig { replacement, ..plain("l1", 16 * u64::from(ways), 16, ways, Next::Memory) };
        let computer = Computer::new(&Tree::new(tree(vec![config], 16, 0, 0)), Rng::new(0));
        Self { computer, world: World::identity(26) }
    }

    /// Returns the set as letters, with dots for empty ways.
    fn contents(&self) -> String {
        let letter = |id: u32| char::from(b'A' + id as u8);
        self.computer.contents(0)[0].iter().map(|way| way.map_or('.', |line| letter(line.at.id))).collect()
    }

    fn load(&mut self, line: char) {
        let at = LineAddr { id: u32::from(line as u8 - b'A'), line: 0 };
        self.computer.user(Kind::Load, at, &self.world);
    }

    fn flush(&mut self, line: char) {
        let page = u32::from(line as u8 - b'A');
        self.computer.flush_page(
            Agent::User,
            binhop_base::PageId(page),
            &self.world.mappings_of(page),
            &self.world,
            &mut (),
        );
    }

    /// Checks a table. A row is the line accessed, the victim ('-' for no victim), and the set after the access.
    fn table(&mut self, rows: &[(char, char, &str)]) {
        for (number, &(line, victim, after)) in rows.iter().enumerate() {
            let before = self.contents();
            self.load(line);
            let now = self.contents();
            let gone: String = before.chars().filter(|&c| c != '.' && !now.contains(c)).collect();
            let expected = if victim == '-' { String::new() } else { victim.to_string() };
            assert_eq!((gone.as_str(), now.as_str()), (expected.as_str(), after), "row {number}: {line}");
        }
    }
}

/// Ways are shown from the latest access to the oldest access.
#[test]
fn lru_evicts_the_line_accessed_longest_ago() {
    OneSet::new(4, Replacement::Lru).table(&[
        ('A', '-', "A..."),
        ('B', '-', "BA.."),
        ('C', '-', "CBA."),
        ('D', '-', "DCBA"),
        ('A', '-', "ADCB"),
        ('E', 'B', "EADC"),
        ('D', '-', "DEAC"),
        ('D', '-', "DEAC"),
        ('F', 'C', "FDEA"),
        ('B', 'A', "BFDE"),
        ('E', '-', "EBFD"),
        ('G', 'D', "GEBF"),
    ]);
}

/// Ways are shown from the latest arrival to the first; a hit moves nothing.
#[test]
fn fifo_evicts_the_line_that_came_first() {
    OneSet::new(4, Replacement::Fifo).table(&[
        ('A', '-', "A..."),
        ('B', '-', "BA.."),
        ('C', '-', "CBA."),
        ('D', '-', "DCBA"),
        ('A', '-', "DCBA"),
        ('E', 'A', "EDCB"),
        ('B', '-', "EDCB"),
        ('F', 'B', "FEDC"),
        ('A', 'C', "AFED"),
    ]);
}

/// The comments show the bits (root, left, right), where 1 points to the upper half. They start at 000. After A B C D
/// in ways 0 to 3 they are 000 again: each access turned the root and its own node away from itself.
#[test]
fn plru_follows_its_bits() {
    OneSet::new(4, Replacement::Plru).table(&[
        ('A', '-', "A..."), // 110
        ('B', '-', "AB.."), // 100
        ('C', '-', "ABC."), // 001
        ('D', '-', "ABCD"), // 000
        ('A', '-', "ABCD"), // 110
        ('E', 'C', "ABED"), // 011: root up, right lower: way 2
        ('F', 'B', "AFED"), // 101: root lower, left up: way 1
        ('F', '-', "AFED"), // 101
        ('G', 'D', "AFEG"), // 000: root up, right up: way 3
        ('H', 'A', "HFEG"), // 110: root lower, left lower: way 0
        ('I', 'E', "HFIG"), // 011
        ('J', 'F', "HJIG"), // 101
        ('H', '-', "HJIG"), // 111
        ('K', 'G', "HJIK"), // 010
        ('L', 'J', "HLIK"), // 100: J, though I was accessed longer ago: this is what "pseudo" means
    ]);
}

/// The worked example of Jaleel et al. (ISCA 2010): a recurring pair and a scan, a1 a2 a2 a1 b1 b2 b3 b4 a1 a2, in
/// four ways under 2-bit SRRIP with hit priority. After the scan a1 and a2 still hit, where LRU has lost both. The
/// paper predicts empty ways distant; here, too, the lowest empty way is filled first. A = a1, B = a2, C … F = b1 …
/// b4. The comments show each line's prediction.
#[test]
fn srrip_keeps_what_was_used_again_through_a_scan() {
    OneSet::new(4, Replacement::Srrip).table(&[
        ('A', '-', "A..."), // A2
        ('B', '-', "AB.."), // A2 B2
        ('B', '-', "AB.."), // A2 B0
        ('A', '-', "AB.."), // A0 B0
        ('C', '-', "ABC."), // A0 B0 C2
        ('D', '-', "ABCD"), // A0 B0 C2 D2
        ('E', 'C', "ABED"), // all grow by 1: A1 B1 C3 D3; the lowest with 3
        ('F', 'D', "ABEF"), // D was left at 3
        ('A', '-', "ABEF"), // A0 B1 E2 F2
        ('B', '-', "ABEF"), // A0 B0
    ]);
    // LRU misses more on the same pattern.
    let mut lru = OneSet::new(4, Replacement::Lru);
    "ABBACDEFAB".chars().for_each(|line| lru.load(line));
    assert_eq!(lru.computer.counters(0).misses[Kind::Load], 8);
    let mut srrip = OneSet::new(4, Replacement::Srrip);
    "ABBACDEFAB".chars().for_each(|line| srrip.load(line));
    assert_eq!(srrip.computer.counters(0).misses[Kind::Load], 6);
}

/// Each victim takes the next draw of seed 0, cache 0, set 0. A line that comes to an empty way takes no draw.
#[test]
fn random_takes_one_draw_for_each_victim_of_the_set() {
    use binhop_base::{Domain, Stream};
    let mut set = OneSet::new(4, Replacement::Random);
    "ABCD".chars().for_each(|line| set.load(line));
    let mut expected: Vec<char> = "ABCD".chars().collect();
    for (index, line) in "EFGHIJ".chars().enumerate() {
        let draw = Rng::new(0).below(Stream::new(Domain::Victim, 0), index as u64, 4);
        expected[draw as usize] = line;
        set.load(line);
        assert_eq!(set.contents(), expected.iter().collect::<String>());
    }
    // A flushed way is filled without a draw.
    let gone = expected[2];
    set.flush(gone);
    set.load('Z');
    expected[2] = 'Z';
    assert_eq!(set.contents(), expected.iter().collect::<String>());
    let draw = Rng::new(0).below(Stream::new(Domain::Victim, 0), 6, 4);
    expected[draw as usize] = 'Y';
    set.load('Y');
    assert_eq!(set.contents(), expected.iter().collect::<String>());
}

/// The lowest empty way is filled first, under every policy that keeps lines in their ways.
#[test]
fn an_emptied_way_is_filled_before_anything_is_evicted() {
    for replacement in [Replacement::Random, Replacement::Plru, Replacement::Srrip] {
        let mut set = OneSet::new(4, replacement);
        "ABCD".chars().for_each(|line| set.load(line));
        set.flush('D');
        set.flush('B');
        set.table(&[('E', '-', "AEC."), ('F', '-', "AECF")]);
    }
}

/// A policy without a table does not compile here.
#[test]
fn every_policy_has_a_table() {
    for &replacement in Replacement::ALL {
        match replacement {
            Replacement::Lru => lru_evicts_the_line_accessed_longest_ago(),
            Replacement::Fifo => fifo_evicts_the_line_that_came_first(),
            Replacement::Random => random_takes_one_draw_for_each_victim_of_the_set(),
            Replacement::Plru => plru_follows_its_bits(),
            Replacement::Srrip => srrip_keeps_what_was_used_again_through_a_scan(),
        }
    }
}
