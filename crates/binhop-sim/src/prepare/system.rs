//! This part of preparation takes in events that are no references. Such events change what the following
//! rows mean.

use std::collections::BTreeSet;
use std::sync::Arc;

use binhop_base::{Asid, Result};
use binhop_trace::{EventBatch, Op};

use super::{BLOCK_CONTROLS, Control, EmitBlock, Mark, Prepare, Process, Turn};
use crate::events::{EventPlace, SystemEvent, read_event};
use crate::occasion::{Occasion, OccasionKind};

impl Prepare {
    /// Notes that another process runs, or the same process in another mode.
    /// `reborn` says that the process belongs to a new life of the address space that runs already.
    fn run(&mut self, process: Process, reborn: bool) {
        if process == self.running && !reborn {
            return;
        }
        let stays = process.asid == self.running.asid && !reborn;
        let before = std::mem::replace(&mut self.running, process);
        if !stays {
            self.forget_lines();
            self.forget_pages();
            self.switch_tlbs();
        }
        let next = self.processes.len() as u32;
        let number = *self.numbers.entry(process).or_insert(next);
        if number == next {
            self.processes.push(process);
        }
        if !stays {
            self.life = self.lives.live(process.asid);
        }
        let life = self.life;
        let begins =
            self.trace_segment.is_some_and(|segment| segment.is_of_another(before.asid, process.asid, life));
        self.mark(Mark::Process(Turn { process: number, asid: process.asid, life, switch: self.switch }));
        if begins {
            self.begin_segment(life);
        }
    }

    /// Follows the births and deaths that an event reports.
    fn follow_lives(&mut self, batch: &EventBatch, row: usize) {
        let (Some(op), Ok(asid)) = (Op::from_code(batch.op()[row]), u32::try_from(batch.addr()[row])) else {
            return;
        };
        let ended = match op {
            Op::Fork => {
                let ended = self.lives.born(Asid(asid));
                if ended.is_some() {
                    if self.seen.forks_onto_living == 0 {
                        self.seen.first_living = Asid(asid);
                    }
                    self.seen.forks_onto_living += 1;
                }
                ended
            }
            Op::Exit => self.lives.ended(Asid(asid)),
            _ => None,
        };
        if let (Some(life), Some(_)) = (ended, self.trace_segment) {
            self.control(Control::LifeEnded(Asid(asid), life));
        }
    }

    /// Takes in an event that is no reference.
    #[cold]
    pub(super) fn system(&mut self, batch: &EventBatch, row: usize) -> Result<()> {
        let op = Op::from_code(batch.op()[row]);
        let devices = self.occasions.as_ref().is_some_and(|all| all.wants(OccasionKind::Device));
        if devices && matches!(op, Some(Op::DmaRead | Op::DmaWrite)) {
            return self.device_request(batch, row);
        }
        if op == Some(Op::Exit)
            && let Ok(asid) = u32::try_from(batch.addr()[row])
        {
            self.footprint(Asid(asid));
        }
        if self.seen.switches == 0 && self.stream.references > 0 {
            // The stream began without a switch, in an address space that lives.
            self.lives.live_first(self.running.asid);
        }
        let place = EventPlace { trace: &self.place, row: self.rows_before + row as u64 };
        let event = read_event(batch, row, &place, self.running.asid, &mut self.spaces)?;
        self.note_shared_map(batch, row);
        self.follow_protection(batch, row);
        self.end_translations(batch, row);
        match event {
            SystemEvent::Switch(asid, switch) => {
                self.check_space(asid, row)?;
                self.seen.switches += 1;
                if self.lives.has_ended(asid) {
                    if self.seen.switches_to_ended == 0 {
                        self.seen.first_ended = asid;
                    }
                    self.seen.switches_to_ended += 1;
                }
                self.switch = switch;
                let reborn = self.brings_new_life(asid);
                let stays = asid == self.running.asid && !reborn;
                // The process that runs next runs in the kernel, too, until the trace says that the kernel is left.
                self.run(Process { asid, ..self.running }, reborn);
                self.lives.live(asid);
                if stays && self.trace_segment.is_some() {
                    self.control(Control::SameLife);
                }
                self.occasion(Occasion::Switch { asid, switch });
            }
            SystemEvent::Kernel(enters) => {
                // An interrupt may enter the kernel a second time. `binhop lint` reports a leave without an enter.
                self.kernel_entries =
                    if enters { self.kernel_entries + 1 } else { self.kernel_entries.saturating_sub(1) };
                let kernel = self.kernel_entries > 0;
                if kernel != self.running.kernel {
                    self.run(Process { kernel, ..self.running }, false);
                }
            }
            SystemEvent::Syscall => {
                self.seen.syscalls += 1;
                if op == Some(Op::Syscall) {
                    self.occasion(Occasion::Syscall { number: batch.count()[row] });
                }
            }
            SystemEvent::Nothing => {}
            SystemEvent::Spaces => {
                self.follow_lives(batch, row);
                self.soft_tlb.clear();
                self.forget_lines();
                self.forget_pages();
                self.report_dead_pages();
            }
        }
        Ok(())
    }

    /// Notes that the next reference of each port is to another page.
    fn forget_pages(&mut self) {
        if let Some(occasions) = &mut self.occasions {
            occasions.forget_pages();
        }
        if let Some(translator) = &mut self.translator {
            translator.forget_known(&mut self.filters);
        }
    }

    /// Tells lanes which pages an address space maps.
    fn footprint(&mut self, asid: Asid) {
        if self.safe.is_some() {
            let shared = |page| self.spaces.mappings_of(page).nth(1).is_some();
            let pages = self.spaces.pages_of_space(asid).into_iter();
            let pages: Arc<[_]> = pages.map(|page| (page, shared(page))).collect();
            if !pages.is_empty() {
                self.control(Control::Footprint(asid, pages));
            }
        }
    }

    /// Tells lanes which pages each address space still maps at the end.
    pub(super) fn last_footprints(&mut self, emit: EmitBlock<'_>) -> Result<()> {
        let asids: BTreeSet<Asid> = self.processes.iter().map(|process| process.asid).collect();
        for asid in asids {
            self.footprint(asid);
            if self.controls.len() >= BLOCK_CONTROLS {
                self.flush(emit)?;
            }
        }
        Ok(())
    }
}
