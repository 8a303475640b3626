//! These tests import ChampSim's traces: both records, words and modifies, address spaces, and files of other formats.

use std::io::Cursor;

use proptest::prelude::*;

use super::{Drip, Row, drain, import_bytes, importer};
use binhop_trace::Op;

/// `Instruction` holds the references of an instruction.
#[derive(Clone, Debug, Default)]
pub(super) struct Instruction {
    pub(super) ip: u64,
    pub(super) stores: Vec<u64>,
    pub(super) loads: Vec<u64>,
    pub(super) asid: u16,
}

/// Writes records of 64 or 96 bytes, with legal values for registers and branches.
pub(super) fn write(size: usize, instructions: &[Instruction]) -> Vec<u8> {
    let (first_store, first_load) = if size == 64 { (16, 32) } else { (24, 56) };
    let mut out = Vec::new();
    for (number, it) in instructions.iter().enumerate() {
        let mut record = vec![0; size];
        record[..8].copy_from_slice(&it.ip.to_le_bytes());
        record[8] = (number % 3 == 0).into();
        record[9] = (number % 5 == 0).into();
        record[10..16].copy_from_slice(&[255, 7, 64, 3, 25, 6]);
        for (slot, addr) in it.stores.iter().enumerate() {
            record[first_store + 8 * slot..][..8].copy_from_slice(&addr.to_le_bytes());
        }
        for (slot, addr) in it.loads.iter().enumerate() {
            record[first_load + 8 * slot..][..8].copy_from_slice(&addr.to_le_bytes());
        }
        if size == 96 {
            record[88..90].copy_from_slice(&it.asid.to_le_bytes());
        }
        out.extend(record);
    }
    out
}

fn does(ip: u64, stores: &[u64], loads: &[u64]) -> Instruction {
    Instruction { ip, stores: stores.to_vec(), loads: loads.to_vec(), asid: 0 }
}

const FORMATS: [(&str, usize); 2] = [("champsim", 64), ("champsim-cloudsuite", 96)];

#[test]
fn loads_come_before_stores_and_both_of_one_address_are_a_modify() {
    for (format, size) in FORMATS {
        let it = import_bytes(
            format,
            write(
                size,
                &[
                    does(0x40_1000, &[], &[]),
                    does(0x40_1003, &[0x9003], &[0x8001]),
                    does(0x40_1008, &[0x7000, 0x7ff8], &[0x6000, 0x7000]),
                    does(0x40_2000, &[], &[]),
                ],
            ),
        )
        .unwrap();
        assert_eq!(
            it.plain(),
            [
                ("fetch", 0x40_1000, 4, 2),
                ("load", 0x8000, 4, 1),
                ("store", 0x9000, 4, 1),
                ("fetch", 0x40_1008, 4, 1),
                ("load", 0x6000, 4, 1),
                ("modify", 0x7000, 4, 1),
                ("store", 0x7ff8, 4, 1),
                ("fetch", 0x40_2000, 4, 1),
            ]
        );
        assert_eq!(it.meta.sizes.as_deref(), Some("assumed"));
        assert_eq!(
            it.notes,
            ["9 references have no size: a reference becomes the aligned 4-byte word at its address"]
        );
    }
}

/// The loads, the stores, and their rows.
type Operands = (&'static [u64], &'static [u64], &'static [(Op, u64)]);

#[test]
fn every_operand_counts_once_if_an_instruction_repeats_an_address() {
    use Op::{Load, Modify, Store};
    const CASES: &[Operands] = &[
        (&[0x80, 0x80], &[0x80], &[(Load, 0x80), (Modify, 0x80)]),
        (&[0x80], &[0x80, 0x80], &[(Modify, 0x80), (Store, 0x80)]),
        (&[0x80, 0x80], &[0x80, 0x80], &[(Modify, 0x80), (Modify, 0x80)]),
        (&[0x80, 0x90, 0x80], &[0x80], &[(Load, 0x80), (Load, 0x90), (Modify, 0x80)]),
        (&[], &[0x80, 0x80], &[(Store, 0x80), (Store, 0x80)]),
        (&[0x80, 0x80], &[], &[(Load, 0x80), (Load, 0x80)]),
    ];
    for (format, size) in FORMATS {
        for (loads, stores, want) in CASES {
            let it = import_bytes(format, write(size, &[does(0x1000, stores, loads)])).unwrap();
            let data: Vec<(Op, u64)> = it.rows[1..].iter().map(|row| (row.0, row.1)).collect();
            assert_eq!(&data, want);
        }
    }
}

#[test]
fn all_slots_are_read() {
    let it = import_bytes("champsim-cloudsuite", write(96, &[does(8, &[1, 2, 3, 0x100], &[5, 6, 7, 0x200])]))
        .unwrap();
    let ops: Vec<&str> = it.plain().iter().map(|row| row.0).collect();
    assert_eq!(ops, ["fetch", "load", "load", "load", "load", "store", "store", "store", "store"]);
    assert_eq!((it.rows[4].1, it.rows[8].1), (0x200, 0x100));
}

#[test]
fn a_change_of_address_space_is_a_switch() {
    let run = |asid| Instruction { ip: 0x1000, asid, ..Instruction::default() };
    let it =
        import_bytes("champsim-cloudsuite", write(96, &[run(0), run(0x102), run(0x102), run(0)])).unwrap();
    let switches: Vec<&Row> = it.rows.iter().filter(|row| row.0 == Op::Switch).collect();
    assert_eq!(switches, [&(Op::Switch, 0x102, 0, 0, Some(2), None), &(Op::Switch, 0, 0, 0, Some(2), None)]);
    assert_eq!(
        it.notes[1],
        "2 changes of address space become switches, whose cause and thread are not known"
    );
}

#[test]
fn a_file_of_another_format_is_refused() {
    let instructions: Vec<Instruction> =
        (0..9).map(|n| does(0x40_1000 + 3 * n, &[0x7fff_1234_5678], &[0x1234_5678, 0x5678_1234])).collect();
    let refused = |format: &str, bytes: Vec<u8>| import_bytes(format, bytes).err().unwrap().to_string();
    let problem = refused("champsim", write(96, &instructions));
    assert!(problem.starts_with("test: record ") && problem.contains("say the right --format"), "{problem}");
    let problem = refused("champsim-cloudsuite", write(64, &instructions));
    assert!(problem.starts_with("test: record ") && problem.contains("say the right --format"), "{problem}");
    let header = b"\x19\0\0\0\x07\0\0\0\0\0\0\0".repeat(16);
    assert!(refused("champsim", header).contains("say --format drmemtrace"));
    let problem = refused("drmemtrace", write(64, &instructions));
    assert!(problem.contains("say --format champsim"), "{problem}");
}

#[test]
fn a_cut_file_is_reported_as_cut() {
    for (format, size) in FORMATS {
        let whole = write(size, &[does(8, &[16], &[24]), does(12, &[], &[])]);
        for length in 1..whole.len() {
            let read = import_bytes(format, whole[..length].to_vec());
            if length == size {
                assert_eq!(read.unwrap().rows.len(), 3);
            } else {
                let problem = read.err().unwrap().to_string();
                let rest =
                    if length % size == 1 { "1 byte".into() } else { format!("{} bytes", length % size) };
                assert!(problem.contains(&format!(": {rest}: a record has {size} bytes")), "{problem}");
            }
        }
    }
}

/// Returns the rows of each record, with a fetch for each. Stores pair with loads, the last load first.
fn oracle(instructions: &[Instruction]) -> Vec<(Op, u64)> {
    let mut rows = Vec::new();
    for it in instructions {
        rows.push((Op::Fetch, it.ip / 4));
        let mut loads: Vec<(Op, u64)> = it.loads.iter().map(|&load| (Op::Load, load)).collect();
        let mut stores = Vec::new();
        for &store in &it.stores {
            match loads.iter_mut().rev().find(|load| **load == (Op::Load, store)) {
                Some(load) => load.0 = Op::Modify,
                None => stores.push((Op::Store, store)),
            }
        }
        rows.extend(loads.into_iter().chain(stores).map(|(op, addr)| (op, addr / 4)));
    }
    rows
}

fn instruction() -> impl Strategy<Value = Instruction> {
    let addresses = |most: usize| proptest::collection::vec(1..6_u64, 0..=most);
    (0..40_u64, addresses(2), addresses(4)).prop_map(|(ip, stores, loads)| Instruction {
        ip: 0x1000 + 5 * ip,
        stores,
        loads,
        asid: 0,
    })
}

proptest! {
    #[test]
    fn the_rows_agree_with_the_oracle(instructions in proptest::collection::vec(instruction(), 1..200), step in 1..200_usize) {
        for (format, size) in FORMATS {
            let drip = Drip { from: Cursor::new(write(size, &instructions)), step };
            let it = drain(importer(format, drip).unwrap()).unwrap();
            let mut got = Vec::new();
            for &(op, addr, size, ..) in &it.rows {
                got.extend((0..u64::from(size / 4)).map(|word| (op, addr / 4 + word)));
            }
            let mut want = oracle(&instructions);
            // A word that is fetched twice in sequence occurs once in a run.
            let repeated = |a: &mut (Op, u64), b: &mut (Op, u64)| a == b && a.0 == Op::Fetch;
            want.dedup_by(repeated);
            got.dedup_by(repeated);
            prop_assert_eq!(got, want);
            let fetched: u64 = it.rows.iter().filter(|row| row.0 == Op::Fetch).map(|row| u64::from(row.3)).sum();
            prop_assert_eq!(fetched, instructions.len() as u64);
        }
    }
}
