//! Temporary.
use binhop_record::*;
use binhop_trace::*;
use std::time::Instant;
fn main() {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let t = Instant::now();
    let request = Request { command: args, valgrind: "/usr/bin/valgrind".into(), recorder: "/tmp/rectool".into(), only: None, fetch: if std::env::var("FETCH").is_ok() {Fetch::Instruction} else {Fetch::Run}, directory: format!("/tmp/bhrec{}", std::process::id()).into() };
    let mut s = Session::start(&request).unwrap();
    let mut streams = s.streams();
    let mut todo = vec![streams.root().unwrap().unwrap()];
    let nowrite = std::env::var("NOWRITE").is_ok();
    let mut meta = s.meta();
    let mut w = write::TraceWriter::create(std::path::Path::new("/tmp/try.parquet"), &meta).unwrap();
    let mut tot = Totals::default();
    while let Some(mut p) = todo.pop() {
        let (mut rows, mut calls, mut n) = (0, 0, 0);
        while let Some(piece) = p.next_piece().unwrap() {
            n += 1;
            match piece {
                Piece::Rows(b) => { rows += b.len(); if nowrite { tot.add(&b) } else { w.push(&b).unwrap() } }
                Piece::Enter{..} => calls += 1,
                Piece::Fork{child} => { eprintln!("fork {child}"); if let Some(c) = streams.child(child).unwrap() { todo.push(c) } else {eprintln!("no child")} }
                Piece::Exec{command} => eprintln!("exec {command}"),
                Piece::Thread{tid,cause,number} => if std::env::var("V").is_ok() {eprintln!("thread {tid} {cause:?} {number:?}")},
                Piece::Exit{..} => eprintln!("exit"),
                _ => {}
            }
        }
        eprintln!("{} {}: rows {rows} calls {calls} pieces {n} at {:?}", p.pid(), p.command(), t.elapsed());
    }
    s.name(&mut meta);
    w.set_meta(&meta);
    let done = w.finish().unwrap();
    for line in s.complaints() { eprintln!("valgrind: {line}"); }
    let st = s.finish().unwrap();
    let r = if nowrite { tot.references } else { done.totals.references };
    eprintln!("{st:?}: refs {r} bytes {} = {:.3} B/ref, {:?} {:.1} M/s", done.bytes, done.bytes as f64 / r as f64, t.elapsed(), r as f64 / 1e6 / t.elapsed().as_secs_f64());
}
