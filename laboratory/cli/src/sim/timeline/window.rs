//! The part of a recording that is drawn. Only the records of that part are kept, however long the run is.

use std::collections::VecDeque;

use tickless_core::trace::Event;
use tickless_sim::record::{End, Header, Record, Recorded, Sink};

use super::state::State;

/// The largest number of records that are kept: nothing can be recognised in a picture of more.
const RECORDS_MAX: usize = 1 << 19;

/// The records to draw, and the state before them.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Picture {
    pub(super) from: u64,
    pub(super) to: u64,
    /// The state of the machine at the beginning of the picture.
    pub(super) state: State,
    pub(super) records: Vec<Record>,
    /// The latest timer, around which the picture is drawn if the user asked for no part: the CPU that fired the timer,
    /// the CPU to which the timer belonged, and the lateness.
    pub(super) latest: Option<Latest>,
}

/// A timer that fired late.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latest {
    pub(super) at: u64,
    pub(super) cpu: u32,
    pub(super) of_cpu: u32,
    pub(super) late: u64,
}

/// The part of a run to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Part {
    /// The beginning of the part. With `None`, the part lies around the latest timer.
    pub(in crate::sim) from: Option<u64>,
    pub(in crate::sim) length: u64,
}

/// Follows a recording, and keeps the records of the part that is drawn.
#[derive(Debug)]
pub(in crate::sim) struct Window {
    part: Part,
    tick: u64,
    /// The state of the machine before the first record that is kept.
    before: State,
    kept: VecDeque<Record>,
    /// The end of the part to draw.
    until: Option<u64>,
    latest: Option<Latest>,
    now: u64,
    picture: Option<Picture>,
}

impl Window {
    pub(in crate::sim) fn new(part: Part) -> Self {
        Self {
            part,
            tick: 0,
            before: State::default(),
            kept: VecDeque::new(),
            until: part.from.map(|from| from.saturating_add(part.length)),
            latest: None,
            now: 0,
            picture: None,
        }
    }

    /// Returns the picture; `None` if the run ended before the part began.
    pub(in crate::sim) fn picture(self) -> Option<Picture> {
        self.picture
    }

    /// Returns the number of records that are kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Returns the lateness of the timer that the record fires, and the CPU to which the timer belongs.
    fn lateness(&self, record: &Record) -> Option<(u64, u32)> {
        let Recorded::Library { event, .. } = record.what else {
            return None;
        };
        let (due, of_cpu) = match event {
            Event::WheelExpire { timeout, .. } => {
                (timeout.due.0.saturating_mul(self.tick), timeout.cpu.0)
            }
            Event::ExpireEntry { cpu, hard, .. } => (u64::try_from(hard).unwrap_or(0), cpu.0),
            _ => return None,
        };
        Some((record.time.saturating_sub(due), of_cpu))
    }

    /// Centres the picture on the record's timer if no earlier timer fired as late.
    fn judge(&mut self, record: &Record) {
        let Some(((late, of_cpu), cpu)) = self.lateness(record).zip(record.cpu) else {
            return;
        };
        if self.latest.is_none_or(|latest| late > latest.late) {
            let at = record.time;
            self.latest = Some(Latest {
                at,
                cpu,
                of_cpu,
                late,
            });
            // Most of it shows how that came.
            self.until = Some(at.saturating_add(self.part.length / 4));
        }
    }

    fn draw(&mut self, until: u64) {
        let first = self.kept.front().map_or(until, |record| record.time);
        let from = until.saturating_sub(self.part.length);
        let from = if self.kept.len() == RECORDS_MAX {
            from.max(first)
        } else {
            from
        };
        self.picture = Some(Picture {
            from,
            to: until,
            state: self.before.clone(),
            records: self.kept.iter().cloned().collect(),
            latest: self.latest,
        });
    }

    fn forget(&mut self) {
        if let Some(record) = self.kept.pop_front() {
            self.before.apply(&record);
        }
    }
}

impl Sink for Window {
    fn begin(&mut self, header: &Header) {
        self.tick = header.tick;
        self.before = State::new(header.cpus);
    }

    fn take(&mut self, record: &Record) {
        self.now = self.now.max(record.time);
        if let Some(until) = self.until.filter(|until| *until <= self.now) {
            self.draw(until);
            self.until = None;
        }
        if self.part.from.is_some() && self.until.is_none() {
            // What was asked for is there.
            return;
        }
        let is_before = self.part.from.is_some_and(|from| record.time < from);
        if is_before && self.kept.is_empty() {
            self.before.apply(record);
            return;
        }
        self.kept.push_back(record.clone());
        if self.part.from.is_none() {
            self.judge(record);
        }
        let oldest = self.now.saturating_sub(self.part.length);
        while self.kept.len() > RECORDS_MAX
            || (self.kept.front()).is_some_and(|first| first.time < oldest)
        {
            self.forget();
        }
    }

    fn end(&mut self, end: End) {
        let is_asked = self.part.from.is_none_or(|from| from < end.time);
        if is_asked && (self.until.is_some() || self.picture.is_none()) {
            self.draw(self.until.unwrap_or(end.time).min(end.time));
        }
    }
}
