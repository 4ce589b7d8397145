//! The part of a recording that is drawn: as little is kept as that takes, however long the run is.

use std::collections::VecDeque;

use tickless_sim::record::{End, Header, Record, Recorded, Sink};

use super::state::State;

/// More than this is not kept: a picture of more than that shows nothing.
const RECORDS_MAX: usize = 1 << 19;

/// What is to be drawn.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Picture {
    pub(super) from: u64,
    pub(super) to: u64,
    /// The machine at the beginning.
    pub(super) state: State,
    pub(super) records: Vec<Record>,
    /// What it is about, if it was not asked for: which CPU fired the latest timer, of which CPU that was, and how
    /// late.
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

/// Which part it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Part {
    /// From where on; `None` is around the latest timer.
    pub(in crate::sim) from: Option<u64>,
    pub(in crate::sim) length: u64,
}

/// Follows a recording, and keeps the part.
#[derive(Debug)]
pub(in crate::sim) struct Window {
    part: Part,
    tick: u64,
    /// The machine before the first record that is kept.
    before: State,
    kept: VecDeque<Record>,
    /// When the part is over that is to be drawn.
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

    /// What there is to draw; nothing if the run was over before.
    pub(in crate::sim) fn picture(self) -> Option<Picture> {
        self.picture
    }

    /// How many records are kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// How late the timer is that fires, and whose it is.
    fn lateness(&self, record: &Record) -> Option<(u64, u32)> {
        match record.what {
            Recorded::TimerExpireEntry {
                of_cpu,
                bucket_expiry,
                ..
            } => {
                let due = bucket_expiry.saturating_mul(self.tick);
                Some((record.time.saturating_sub(due), of_cpu))
            }
            Recorded::HrtimerExpireEntry {
                of_cpu, expires, ..
            } => {
                let due = u64::try_from(expires).unwrap_or(0);
                Some((record.time.saturating_sub(due), of_cpu))
            }
            _ => None,
        }
    }

    /// If this fires a timer later than any before, the picture is to be about that.
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
