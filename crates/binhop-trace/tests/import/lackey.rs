//! These tests import lackey's text: references, system calls, threads, several processes in one text, and foreign
//! lines.
//!
//! `threads.lackey` and `processes.lackey` are from Valgrind 3.19 (a small C program with two threads; `sh -c
//! 'sort f | gzip > /dev/null'` with --trace-children=yes), thinned to the first two references after each
//! message. The `.rows` files beside them hold the expected rows.

use std::fmt::Write;

use super::{Imported, data, imported, refused};

fn table(it: &Imported) -> String {
    let mut table = String::new();
    for (op, addr, size, count, arg0, arg1) in &it.rows {
        let show = |arg: &Option<u64>| arg.map_or("-".to_string(), |value| value.to_string());
        writeln!(table, "{} {addr:x} {size} {count} {} {}", op.name(), show(arg0), show(arg1)).unwrap();
    }
    table
}

#[test]
fn each_kind_of_reference_is_read() {
    let it = imported(
        "lackey",
        "I  0401ab70,3\nI  0401ab73,5\n S 1fff000d48,8\nI  0401ab78,7\n M 04033e06,1\n L 1ffefff3f8,32\n",
    );
    assert_eq!(
        it.plain(),
        [
            ("fetch", 0x401ab70, 8, 2),
            ("store", 0x1fff000d48, 8, 1),
            ("fetch", 0x401ab78, 7, 1),
            ("modify", 0x4033e06, 1, 1),
            ("load", 0x1ffefff3f8, 32, 1),
        ]
    );
    assert_eq!(it.meta.sizes.as_deref(), Some("exact"));
    assert_eq!(it.meta.recorder.as_deref(), Some("Valgrind lackey"));
    assert!(it.notes.is_empty() && it.meta.processes.is_empty());
}

#[test]
fn a_repeated_instruction_is_a_row_each_time() {
    assert_eq!(imported("lackey", "I  00400100,2\nI  00400100,2\n").plain(), [("fetch", 0x400100, 2, 1); 2]);
}

#[test]
fn messages_give_the_program_and_the_version() {
    let it = imported(
        "lackey",
        "==42== Lackey, an example Valgrind tool\n==42== Using Valgrind-3.19.0 and LibVEX; rerun with -h\n==42== Command: sort f\n==42== \n\n**42** hello\nI  00400100,2\n==42== Counted 0 calls to main()\n",
    );
    assert_eq!(it.plain(), [("fetch", 0x400100, 2, 1)]);
    assert_eq!(it.meta.recorder.as_deref(), Some("Valgrind lackey 3.19.0"));
    assert_eq!(it.meta.command.as_deref(), Some("sort f"));
    assert_eq!((it.meta.processes.len(), it.meta.processes[&0].pid), (1, Some(42)));
    assert_eq!(it.meta.page_size, None);
    assert!(it.notes.is_empty());
}

#[test]
fn a_text_of_two_threads() {
    let it = imported("lackey", &data("threads.lackey"));
    assert_eq!(table(&it), data("threads.rows"));
    assert_eq!(it.meta.page_size, Some(4096));
    assert_eq!(it.meta.processes.len(), 1);
    assert_eq!(it.notes, ["1 mapping was moved by mremap; every page there counts as a new page"]);
}

#[test]
fn a_text_of_three_processes() {
    let it = imported("lackey", &data("processes.lackey"));
    assert_eq!(table(&it), data("processes.rows"));
    let commands: Vec<_> = it
        .meta
        .processes
        .values()
        .map(|process| (process.pid.unwrap(), process.command.as_deref().unwrap()))
        .collect();
    assert_eq!(
        commands,
        [
            (8008, "sh -c sort\\ f\\ |\\ gzip\\ \\>\\ /dev/null"),
            (8009, "/usr/bin/sort f"),
            (8010, "/usr/bin/gzip")
        ]
    );
    assert_eq!(
        it.notes,
        [
            "97 references were made while several processes ran; the process named last is assumed (with one text per \
             process, --log-file=NAME.%p, the process is known)",
            "2 system calls are left out, because the text does not hold the result",
            "2 pieces of system calls are left out, because the text does not hold the call",
        ]
    );
    assert_eq!(
        it.meta.recorder.as_deref(),
        Some("Valgrind lackey 3.19.0 (97 references assigned by assumption)")
    );
    // The text holds the same number of references, so no reference is lost in the pieces.
    let text = data("processes.lackey");
    let in_text = text.lines().filter(|line| {
        let comma = line.rfind(',').unwrap_or(0);
        let letter = line[..comma].rfind(' ').unwrap_or(0).saturating_sub(2);
        let whole = line[comma..].trim_start_matches(',').parse::<u32>().is_ok();
        whole && ["I ", " I", " L", " S", " M"].iter().any(|mark| line[letter..].starts_with(mark))
    });
    let rows = it.rows.iter().filter(|row| row.0.is_reference()).map(|row| u64::from(row.3)).sum::<u64>();
    assert_eq!(rows, in_text.count() as u64);
}

#[test]
fn a_file_mapped_by_two_processes_is_one_segment() {
    let of = |pid: u32, start: u32| {
        format!(
            "--{pid}--   SCHED[1]:  acquired lock (x)\nI  00400100,2\n\
             SYSCALL[{pid},1](257) sys_openat ( 4294967196, 0x4835540(/lib/libc.so.6), 524288 ) --> [async] ... \n\
             SYSCALL[{pid},1](257) ... [async] --> Success(0x3) \n\
             SYSCALL[{pid},1](9) sys_mmap ( 0x0, 5000, 5, 2050, 3, 4096 ) --> [pre-success] Success(0x{start:x}) \n\
             SYSCALL[{pid},1](17) sys_pread64 ( 3, 0x1ffe, 784, 64 )[sync] --> Success(0x310) \n\
             SYSCALL[{pid},1](231) exit_group( 0 ) --> [pre-success] Success(0x0) \n"
        )
    };
    let it = imported("lackey", &(of(5, 0x10000) + &of(6, 0x20000)));
    assert_eq!(
        table(&it),
        "fetch 400100 2 1 - -\n\
         syscall 0 0 257 - -\n\
         map 10000 5 2 1 4096\n\
         syscall 0 0 9 - -\n\
         syscall 1ffe 784 17 1 64\n\
         syscall 0 0 231 - -\n\
         exit 0 0 0 - -\n\
         switch 1 1 0 3 -\n\
         fetch 400100 2 1 - -\n\
         syscall 0 0 257 - -\n\
         map 20000 5 2 1 4096\n\
         syscall 0 0 9 - -\n\
         syscall 1ffe 784 17 1 64\n\
         syscall 0 0 231 - -\n\
         exit 1 0 0 - -\n"
    );
    assert_eq!(it.meta.segments[&1].file.as_deref(), Some("/lib/libc.so.6"));
    assert_eq!(it.meta.files[&1], "/lib/libc.so.6");
    assert!(it.notes.is_empty(), "one ended before the other began: {:?}", it.notes);
}

#[test]
fn mmap_flags_become_flags_of_the_mapping() {
    let map = |protection: u32, flags: u32| {
        let text = format!(
            "I  00400100,2\nSYSCALL[7,1](9) sys_mmap ( 0x0, 4096, {protection}, {flags}, 4294967295, 0 ) --> [pre-success] Success(0x10000) \n"
        );
        imported("lackey", &text).rows[1].2
    };
    // READ 1, WRITE 2, EXEC 4, SHARED 8, GROWS 16; mmap: shared 1, private 2, anonymous 0x20, grows down
    // 0x100.
    assert_eq!([map(1, 0x21), map(3, 0x22), map(7, 0x122), map(0, 0x22)], [1 + 8, 3, 7 + 16, 0]);
}

#[test]
fn a_call_with_unfit_arguments_is_counted() {
    let it = imported(
        "lackey",
        "I  00400100,2\nSYSCALL[7,1](9) sys_mmap ( 0x0, 4096, 3, 34, 4294967295, 0 ) --> [pre-success] Success(0x0) \n",
    );
    assert_eq!(table(&it), "fetch 400100 2 1 - -\nsyscall 0 0 9 - -\n");
    assert_eq!(
        it.notes,
        ["1 system call has arguments that do not fit the kind of call; the effect on memory is left out"]
    );
}

#[test]
fn a_line_of_the_program_is_named() {
    assert_eq!(
        refused("lackey", "I  00400100,2\nhello, world\n"),
        "test: line 2: \"hello, world\": a line is a reference (`I  addr,size`, ` L addr,size`, ` S addr,size`, ` M addr,size`) or a message of Valgrind (`==pid==`, `--pid--`, SYSCALL[…]); keep the program's own output apart: valgrind --log-fd=9 … 9>&1 >/dev/null; or delete the line"
    );
    for wrong in [
        "I 00400100,2",
        "I  ,2",
        "I  00400100",
        "I  00400100,",
        "I  00400100,0",
        "I  00400100,x",
        " L 10000000000000000,1",
        " X 00400100,2",
        "L 00400100,2",
        " S ffffffffffffffff,2",
        "==x== Command",
        "--12",
        "SYSCALL[1,2]",
        " L 00400100,4294967296",
    ] {
        let problem = refused("lackey", &format!("I  00400100,2\n{wrong}\n"));
        assert!(
            problem.starts_with(&format!("test: line 2: \"{wrong}\": a line is a reference ")),
            "{problem}"
        );
    }
}
