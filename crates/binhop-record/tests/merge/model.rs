//! This file holds the slow model of the merge: all pieces are in memory, every time is known, and every decision looks
//! at every process.

use std::collections::BTreeMap;

use binhop_record::schedule::{Ready, Schedule};
use binhop_record::{Merge, Piece, WaitsFor};
use binhop_trace::Op;
use binhop_trace::event::Cause;

use crate::generated::{Recording, WAIT4};
use crate::{Row, is, rows_of};

/// `Step` is one step of a process: a row, or an event between rows.
#[derive(Clone)]
enum Step {
    Row(Row),
    Enter { number: u32, waits: WaitsFor, time: u64 },
    Leave { number: u32, time: u64, result: i64 },
    Time(u64),
    Fork(u64),
    Exec,
    Exit,
}

struct ModelProcess {
    pid: u64,
    steps: Vec<Step>,
    at: usize,
    clock: u64,
    parent: Option<usize>,
    waits: bool,
    for_child: bool,
    live_children: u32,
    zombies: u32,
    last_turn: u64,
    ended: bool,
}

impl ModelProcess {
    fn new(recording: &Recording, pid: u64, parent: Option<usize>, clock: u64) -> Self {
        let mut steps = Vec::new();
        for (_, piece) in &recording[&pid].pieces {
            match piece {
                Piece::Rows(batch) => steps.extend(rows_of(batch).map(Step::Row)),
                &Piece::Enter { number, waits, time, .. } => steps.push(Step::Enter { number, waits, time }),
                &Piece::Leave { number, time, result, .. } => {
                    steps.push(Step::Leave { number, time, result });
                }
                &Piece::Time { time } => steps.push(Step::Time(time)),
                &Piece::Fork { child } => steps.push(Step::Fork(child)),
                Piece::Exec { .. } => steps.push(Step::Exec),
                Piece::Exit { .. } => steps.push(Step::Exit),
                Piece::Thread { .. } => unreachable!("recordings have one thread in a process"),
            }
        }
        Self {
            pid,
            steps,
            at: 0,
            clock,
            parent,
            waits: false,
            for_child: false,
            live_children: 0,
            zombies: 0,
            last_turn: 0,
            ended: false,
        }
    }

    /// Returns the time before which the process does nothing more. The model knows the future.
    fn done_until(&self) -> u64 {
        match &self.steps[self.at] {
            _ if self.for_child && self.live_children > 0 && self.zombies == 0 => u64::MAX,
            Step::Leave { time, .. } if self.waits => *time,
            _ => self.clock,
        }
    }
}

struct Model<'a> {
    recording: &'a Recording,
    all: Vec<ModelProcess>,
    rows: Vec<Row>,
    running: usize,
    turns: u64,
    ran: u64,
    turn: u64,
}

/// Returns the merged rows of a recording.
pub(crate) fn merge(recording: &Recording, schedule: &mut dyn Schedule) -> Vec<Row> {
    let Some(&first) = recording.keys().next() else { return Vec::new() };
    let all = vec![ModelProcess::new(recording, first, None, 0)];
    let mut model = Model { recording, all, rows: Vec::new(), running: 0, turns: 0, ran: 0, turn: 0 };
    model.begin(0, schedule);
    while !model.all[model.running].ended {
        model.step(schedule);
    }
    model.rows
}

impl Model<'_> {
    fn begin(&mut self, asid: usize, schedule: &mut dyn Schedule) {
        self.turns += 1;
        self.running = asid;
        self.all[asid].last_turn = self.turns;
        self.turn = schedule.turn(asid as u32);
        self.ran = 0;
    }

    fn step(&mut self, schedule: &mut dyn Schedule) {
        let me = self.running;
        let step = self.all[me].steps[self.all[me].at].clone();
        match step {
            Step::Row(row) => {
                if is(&row, Op::Fetch) && self.living().count() > 1 {
                    if self.ran > 0 && self.ran + u64::from(row.3) > self.turn {
                        return self.next(Cause::Involuntary, None, schedule);
                    }
                    self.ran += u64::from(row.3);
                }
                self.rows.push(row);
            }
            Step::Enter { number, waits, time } => return self.enter(number, waits, time, schedule),
            Step::Leave { number, time, result } => {
                let me = &mut self.all[me];
                me.clock = me.clock.max(time);
                me.waits = false;
                me.for_child = false;
                if number == WAIT4 && result > 0 {
                    me.zombies = me.zombies.saturating_sub(1);
                }
            }
            Step::Time(time) => self.all[me].clock = self.all[me].clock.max(time),
            Step::Fork(pid) => {
                let clock = self.all[me].clock;
                let born = self.all.len() as u64;
                self.all.push(ModelProcess::new(self.recording, pid, Some(me), clock));
                self.all[me].live_children += 1;
                self.rows.push((Op::Fork as u8, born, 0, 0, Some(me as u64), None));
            }
            Step::Exec => self.rows.push((Op::Exec as u8, me as u64, 0, 0, None, None)),
            Step::Exit => {
                self.rows.push((Op::Exit as u8, me as u64, 0, 0, None, None));
                self.all[me].ended = true;
                if let Some(parent) = self.all[me].parent {
                    self.all[parent].live_children -= 1;
                    self.all[parent].zombies += 1;
                }
                return self.next(Cause::Exit, None, schedule);
            }
        }
        self.all[me].at += 1;
    }

    /// Decides on a call when the process enters it, because the model knows when the call returns.
    fn enter(&mut self, number: u32, waits: WaitsFor, time: u64, schedule: &mut dyn Schedule) {
        let me = self.running;
        self.all[me].clock = self.all[me].clock.max(time);
        self.all[me].at += 1;
        let Step::Leave { time: leave, result, .. } = self.all[me].steps[self.all[me].at] else { return };
        let long = leave - self.all[me].clock > Merge::wait_threshold(result);
        let others =
            self.living().filter(|&other| other != me).map(|other| self.all[other].done_until()).min();
        let behind = others.is_some_and(|done_until| done_until < leave);
        let no_child_ended = self.all[me].live_children > 0 && self.all[me].zombies == 0;
        let must_wait = match waits {
            WaitsFor::Nothing => false,
            WaitsFor::Room => long,
            WaitsFor::Given => long || behind,
            WaitsFor::Child => long || behind || no_child_ended,
        };
        if must_wait {
            self.all[me].waits = true;
            self.all[me].for_child = waits == WaitsFor::Child && no_child_ended;
            self.next(Cause::SystemCall, Some(number.into()), schedule);
        }
    }

    fn living(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.all.len()).filter(|&at| !self.all[at].ended)
    }

    fn next(&mut self, cause: Cause, number: Option<u64>, schedule: &mut dyn Schedule) {
        if self.living().next().is_none() {
            return;
        }
        let mut done_until: BTreeMap<usize, u64> =
            self.living().map(|at| (at, self.all[at].done_until())).collect();
        if done_until.values().all(|&time| time == u64::MAX) {
            self.all.iter_mut().for_each(|process| process.for_child = false);
            done_until = self.living().map(|at| (at, self.all[at].done_until())).collect();
        }
        let least = *done_until.values().min().expect("a process lives");
        let may_run = done_until.iter().filter(|&(&at, &time)| !self.all[at].waits || time <= least);
        let ready: Vec<Ready> =
            may_run.map(|(&at, _)| Ready { asid: at as u32, last_turn: self.all[at].last_turn }).collect();
        let next = ready[schedule.choose(&ready)].asid as usize;
        if next != self.running || cause != Cause::Involuntary {
            let tid = self.all[next].pid as u32;
            self.rows.push((Op::Switch as u8, next as u64, tid, 0, Some(cause as u64), number));
        }
        self.begin(next, schedule);
    }
}
