//! These tests import drmemtrace: records, files and directories. A slow reader gives the expected rows.

mod directory;
mod oracle;
mod write;

use std::io::Cursor;

use super::{Drip, Row, drain, import_bytes, importer, sample};
use binhop_trace::Op;
use binhop_trace::placements::PlacedPage;
use write::{File, m};

fn rows(file: &File) -> Vec<Row> {
    import_bytes("drmemtrace", file.bytes()).unwrap_or_else(|problem| panic!("{problem}")).rows
}

fn notes(file: &File) -> Vec<String> {
    import_bytes("drmemtrace", file.bytes()).unwrap_or_else(|problem| panic!("{problem}")).notes
}

fn row(op: Op, addr: u64, size: u32, count: u32) -> Row {
    (op, addr, size, count, None, None)
}

fn refused(bytes: Vec<u8>) -> String {
    import_bytes("drmemtrace", bytes).err().expect("it is refused").to_string()
}

#[test]
fn references_are_rows_and_fetches_join() {
    let file =
        File::of(7, 7).instr(0x1000, 3).instr(0x1003, 5).read(0x8001, 8).write(0x8001, 8).jump(0x1008, 2);
    let file = file.record(47, 8, 0x1234).instr(0x2000, 4).record(48, 2, 0x2004).end(7);
    assert_eq!(
        rows(&file),
        [
            row(Op::Fetch, 0x1000, 8, 2),
            row(Op::Load, 0x8001, 8, 1),
            row(Op::Store, 0x8001, 8, 1),
            row(Op::Fetch, 0x1008, 2, 1),
            row(Op::Fetch, 0x2000, 6, 2),
        ]
    );
}

#[test]
fn the_metadata_name_process_and_recorder() {
    let it = import_bytes("drmemtrace", File::of(7, 5).instr(0x1000, 3).end(7).bytes()).unwrap();
    assert_eq!(it.meta.recorder.as_deref(), Some("drmemtrace (DynamoRIO), format version 7"));
    assert_eq!((it.meta.page_size, it.meta.sizes.as_deref()), (Some(4096), Some("exact")));
    assert_eq!(it.meta.processes.len(), 1);
    assert_eq!(it.meta.processes[&0].pid, Some(5));
    assert_eq!(it.notes, ["2 markers that say nothing about references are left out"]);
}

#[test]
fn records_without_a_row_are_counted() {
    let file = File::of(7, 7).instr(0x1000, 3).record(29, 3, 0x1000).read(0x10, 4).record(32, 64, 0x40);
    let file = file.record(2, 64, 0x40).record(27, 64, 0).record(18, 0, 0).record(19, 0, 9).record(20, 64, 5);
    let file = file.mark(m::KERNEL_EVENT, 5).record(10, 0, 0x77).mark(m::CORE_IDLE, 0).mark(99, 0).end(7);
    assert_eq!(rows(&file).len(), 2);
    assert_eq!(
        notes(&file),
        [
            "3 prefetches are left out",
            "2 cache flushes are left out, so lines stay where the program flushed them",
            "1 further round of a string instruction counts neither as a fetch nor as an instruction",
            "1 record of a reference is left out, for want of a length",
            "1 signal or other event of the kernel is read as a jump",
            "1 marker of a core that waits or idles is left out, so that time does not pass",
            "3 markers that say nothing about references are left out",
        ]
    );
}

#[test]
fn bundles_and_string_rounds_of_online_traces_are_read() {
    let lengths = u64::from_le_bytes([2, 3, 4, 0, 0, 0, 0, 0]);
    let file = File::of(7, 7).instr(0x1000, 5).record(17, 3, lengths).record(30, 2, 0x100e).read(1, 1);
    let file = file.record(30, 2, 0x100e).read(2, 1).end(7);
    assert_eq!(rows(&file), [row(Op::Fetch, 0x1000, 16, 5), row(Op::Load, 1, 1, 1), row(Op::Load, 2, 1, 1)]);
    for wrong in [
        File::of(7, 7).record(17, 1, 2),
        File::of(7, 7).instr(1, 1).record(17, 9, 1),
        File::of(7, 7).instr(1, 1).record(17, 3, 1),
    ] {
        assert!(
            refused(wrong.end(7).bytes()).contains("a bundle of up to 8 instructions follows an instruction")
        );
    }
}

#[test]
fn threads_in_one_file_switch_with_a_cause() {
    let file =
        File::of(7, 70).instr(0x1000, 3).mark(m::SYSCALL, 202).mark(m::MAYBE_BLOCKING, 0).thread(8, 70);
    let file =
        file.cpu(3).instr(0x2000, 1).thread(7, 70).cpu(1 << 12 | 2).instr(0x3000, 1).exit(7).thread(8, 70);
    // Another process runs, then an earlier thread, whose process is known.
    let file = file.instr(0x4000, 1).thread(9, 90).instr(0x5000, 1).record(22, 0, 8).instr(0x6000, 1).end(8);
    let switch = |asid, tid, cpu, cause, call| (Op::Switch, asid, tid, cpu, Some(cause), call);
    assert_eq!(
        rows(&file),
        [
            row(Op::Fetch, 0x1000, 3, 1),
            row(Op::Syscall, 0, 0, 202),
            switch(0, 8, 3, 0, Some(202)),
            row(Op::Fetch, 0x2000, 1, 1),
            switch(0, 7, 2, 2, None),
            row(Op::Fetch, 0x3000, 1, 1),
            switch(0, 8, 2, 3, None),
            row(Op::Fetch, 0x4000, 1, 1),
            switch(1, 9, 2, 2, None),
            row(Op::Fetch, 0x5000, 1, 1),
            switch(0, 8, 2, 2, None),
            row(Op::Fetch, 0x6000, 1, 1),
        ]
    );
    let note = notes(&file).pop().unwrap();
    assert!(note.starts_with("the order of 5 switches among 3 threads is that of the traced run"), "{note}");
    assert!(note.contains("2 to 10 times"), "{note}");
}

#[test]
fn a_thread_without_further_references_makes_no_switch() {
    let file =
        File::of(7, 7).instr(0x1000, 3).mark(m::SYSCALL, 1).thread(8, 7).thread(7, 7).instr(0x1003, 1).end(7);
    assert_eq!(
        rows(&file),
        [row(Op::Fetch, 0x1000, 3, 1), row(Op::Syscall, 0, 0, 1), row(Op::Fetch, 0x1003, 1, 1)]
    );
}

#[test]
fn the_first_to_run_need_not_be_the_first_named() {
    let file = File::of(7, 7).thread(8, 9).instr(0x1000, 3).thread(7, 7).instr(0x2000, 3).end(7);
    assert_eq!(
        rows(&file),
        [
            (Op::Switch, 1, 8, 0, Some(2), None),
            row(Op::Fetch, 0x1000, 3, 1),
            (Op::Switch, 0, 7, 0, Some(2), None),
            row(Op::Fetch, 0x2000, 3, 1),
        ]
    );
}

#[test]
fn the_kernels_references_are_marked() {
    let file = File::of(7, 7).instr(0x1000, 3).mark(m::SYSCALL, 1).mark(m::SYSCALL_TRACE_START, 1);
    let file =
        file.instr(0xffff_8000_0000_0000, 2).read(0xffff_8800_0000_0000, 8).mark(m::SYSCALL_TRACE_END, 1);
    let file =
        file.instr(0x1003, 1).mark(m::CONTEXT_SWITCH_START, 2).instr(0xffff_8000_0000_1000, 1).thread(8, 7);
    let file = file.instr(0xffff_8000_0000_1001, 1).mark(m::CONTEXT_SWITCH_END, 2).instr(0x1004, 1);
    let file = file.mark(m::SYSCALL_TRACE_START, 1).instr(0xffff_8000_0000_0000, 2).end(8);
    let leave = row(Op::KernelLeave, 0, 0, 0);
    assert_eq!(
        rows(&file),
        [
            row(Op::Fetch, 0x1000, 3, 1),
            row(Op::Syscall, 0, 0, 1),
            row(Op::KernelEnter, 0, 0, 0),
            row(Op::Fetch, 0xffff_8000_0000_0000, 2, 1),
            row(Op::Load, 0xffff_8800_0000_0000, 8, 1),
            leave,
            row(Op::Fetch, 0x1003, 1, 1),
            row(Op::KernelEnter, 0, 0, 2),
            row(Op::Fetch, 0xffff_8000_0000_1000, 1, 1),
            leave,
            (Op::Switch, 0, 8, 0, Some(2), None),
            row(Op::KernelEnter, 0, 0, 2),
            row(Op::Fetch, 0xffff_8000_0000_1001, 1, 1),
            leave,
            row(Op::Fetch, 0x1004, 1, 1),
            row(Op::KernelEnter, 0, 0, 0),
            row(Op::Fetch, 0xffff_8000_0000_0000, 2, 1),
            leave,
        ]
    );
}

#[test]
fn chunks_repeat_time_and_processor() {
    let file =
        File::of(7, 7).time(10).cpu(4).instr(0x1000, 3).mark(m::CHUNK_FOOTER, 0).mark(m::RECORD_ORDINAL, 9);
    // If the repeated time were used, time would run backward.
    let file = file.time(5).cpu(9).instr(0x1003, 3).thread(8, 7).instr(1, 1).end(8);
    assert_eq!(
        rows(&file),
        [row(Op::Fetch, 0x1000, 6, 2), (Op::Switch, 0, 8, 4, Some(2), None), row(Op::Fetch, 1, 1, 1)]
    );
    assert!(!notes(&file).iter().any(|note| note.contains("timestamps")));
    let backward = File::of(7, 7).time(10).time(5).instr(1, 1).end(7);
    assert!(
        notes(&backward).contains(
            &"1 timestamp is earlier than the timestamp before: the time before is taken".to_string()
        )
    );
}

#[test]
fn physical_addresses_are_a_placement() {
    let pair = |file: File, from, to| file.mark(m::PHYSICAL_ADDRESS, to).mark(m::VIRTUAL_ADDRESS, from);
    let file = pair(File::of(7, 7), 0x1000, 0x9000).instr(0x1004, 1);
    let file = pair(pair(file, 0x1000, 0x9000), 0x2010, 0xa010).mark(m::NO_PHYSICAL_ADDRESS, 0x5000);
    let file =
        pair(pair(file, 0x1000, 0xb000).mark(m::VIRTUAL_ADDRESS, 0x77000).thread(8, 9), 0x1000, 0xc000);
    let it = import_bytes("drmemtrace", file.end(8).bytes()).unwrap();
    let placement = it.placement.unwrap();
    let page = |asid, page_no, frame| PlacedPage { asid, page_no, frame };
    assert_eq!(placement.pages, [page(0, 1, 9), page(0, 2, 10), page(0, 1, 11), page(1, 1, 12)]);
    assert_eq!(placement.page_size, Some(4096));
    assert!(
        it.notes.iter().any(|note| note.starts_with("the trace holds the physical addresses of 4 pages; "))
    );
    assert!(it.notes.contains(&"1 page was recorded without a physical address".to_string()));
    assert!(
        import_bytes("drmemtrace", File::of(7, 7).instr(1, 1).end(7).bytes()).unwrap().placement.is_none()
    );
}

#[test]
fn a_placement_is_written_and_read_back() {
    let file =
        File::of(7, 7).mark(m::PHYSICAL_ADDRESS, 0x9000).mark(m::VIRTUAL_ADDRESS, 0x1000).instr(1, 1).end(7);
    let placement = import_bytes("drmemtrace", file.bytes()).unwrap().placement.unwrap();
    let path = write::directory("placement").join("p.parquet");
    let write = |placement: &binhop_trace::Placements| {
        binhop_trace::PlacementWriter::create(&path, None).and_then(|writer| writer.write(placement))
    };
    write(&placement).unwrap();
    let read = binhop_trace::read_placements(&path.display().to_string(), "placement.file").unwrap();
    assert_eq!((read.pages, read.page_size), (placement.pages, Some(4096)));
    let problem = write(&binhop_trace::Placements::default()).unwrap_err();
    assert!(problem.value == "no physical address", "{problem}");
}

#[test]
fn the_file_type_and_the_version_give_warnings() {
    let file = |kind| File::of(7, 7).mark(m::FILETYPE, kind).mark(m::VERSION, 8).instr(1, 1).end(7);
    let all = notes(&file(0x100 | 0x4 | 0x2000)).join("\n");
    for part in [
        "was filtered by a small cache",
        "--warmup leaves it out",
        "instructions only",
        "format version 8 is newer than 7",
    ] {
        assert!(all.contains(part), "{all}");
    }
    assert_eq!(notes(&File::of(7, 7).instr(1, 1).end(7)).len(), 1);
}

#[test]
fn wrong_records_are_named() {
    let unknown = refused(File::of(7, 7).instr(1, 1).record(50, 2, 0xab).end(7).bytes());
    assert!(
        unknown.starts_with(
            "test: record 9: type 50, size 2, address 0xab: no drmemtrace record has this type; "
        ),
        "{unknown}"
    );
    assert!(refused(File::of(7, 7).record(300, 2, 0).end(7).bytes()).contains("type 300, size 2"));
    assert!(
        refused(File::default().record(25, 0, 7).instr(1, 1).end(7).bytes())
            .contains("are named before the first reference")
    );
    assert!(refused(File::default().record(22, 0, 7).bytes()).contains("type 22: a drmemtrace file"));
    assert!(refused(b"hello".to_vec()).contains("5 bytes: a drmemtrace file"));
    assert!(refused(File::of(7, 7).end(7).bytes()).contains("a trace holds at least one reference"));
    assert!(
        refused(File::of(7, 7).instr(1, 1).end(7).instr(2, 2).bytes()).contains("nothing follows the footer")
    );
    assert!(
        refused(File::of(7, 7).mark(m::PAGE_SIZE, 1000).end(7).bytes())
            .contains("the size of a page is a power of two")
    );
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let file = File::of(7, 7)
        .time(1)
        .instr(0x1000, 3)
        .mark(m::SYSCALL, 3)
        .read(0x10, 4)
        .thread(8, 7)
        .instr(5, 5)
        .end(8);
    let whole = file.bytes();
    for length in 1..whole.len() {
        let problem = refused(whole[..length].to_vec());
        assert!(problem.contains("is cut short") || length < 12, "{length}: {problem}");
    }
    // The scheduler writes the file of a processor, and may omit the footer. A note reports the missing
    // footer.
    let core = File::of(7, 7).mark(m::FILETYPE, 0x1_0000).instr(1, 1);
    assert!(
        notes(&core)
            .contains(&"1 file has no footer, perhaps because the recording was cut short".to_string())
    );
}

#[test]
fn the_samples_are_read_whole() {
    if let Some(path) = sample("drmemtrace.small.x64.trace") {
        let it = import_bytes("drmemtrace", std::fs::read(path).unwrap()).unwrap();
        let count = |op| it.rows.iter().filter(|row| row.0 == op).map(|row| u64::from(row.3)).sum::<u64>();
        assert_eq!((count(Op::Fetch), count(Op::Load), count(Op::Store)), (173, 42, 14));
        assert_eq!(it.rows.iter().filter(|row| row.0 == Op::Switch).count(), 0);
        assert_eq!(it.meta.processes[&0].pid, Some(0x542c));
    }
    if let Some(path) = sample("drmemtrace.allasm_x86_64.trace.zip") {
        let it = import_bytes("drmemtrace", std::fs::read(path).unwrap()).unwrap();
        let calls: Vec<u32> = it.rows.iter().filter(|row| row.0 == Op::Syscall).map(|row| row.3).collect();
        assert_eq!((calls.len(), calls[0]), (17, 1));
        let instructions: u64 =
            it.rows.iter().filter(|row| row.0 == Op::Fetch).map(|row| u64::from(row.3)).sum();
        assert_eq!(instructions, 133);
        assert_eq!(it.meta.page_size, Some(4096));
    }
}

#[test]
fn the_arrival_of_the_bytes_does_not_matter() {
    let mut file = File::of(7, 7);
    for n in 0..40_000_u64 {
        file = file.instr(0x1000 + n % 1000 * 5, 3 + (n % 2) as u16);
        if n % 3 == 0 {
            file = file.read(0x10_0000 + n * 64, 8);
        }
        if n % 1000 == 0 {
            file = file.time(n).thread(7 + n / 1000 % 3, 7);
        }
    }
    let bytes = file.end(7).bytes();
    let whole = import_bytes("drmemtrace", bytes.clone()).unwrap();
    assert!(whole.rows.len() > 16_000);
    for step in [1, 4097] {
        let drip = Drip { from: Cursor::new(bytes.clone()), step };
        let dripped = drain(importer("drmemtrace", drip).unwrap()).unwrap();
        assert!(dripped.rows == whole.rows && dripped.batches == whole.batches);
    }
}
