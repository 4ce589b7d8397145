//! The lanes of a picture: the states of each CPU and each group over time.

use std::collections::{BTreeMap, BTreeSet};

use tickless_core::hierarchy::{ChildSlot, ChildSlots, Step};
use tickless_core::trace::Event;
use tickless_sim::record::{MachineEvent, Record, Recorded};

use super::state::{Activity, State};
use super::window::Picture;

/// The largest number of CPUs that a picture draws: a reader cannot tell more lanes apart.
const CPUS_MAX: usize = 32;

/// A state of a lane, with the time for which the state lasted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span<T> {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) what: T,
}

/// The state of a group: its migrator, and its active children.
pub(super) type Duty = (Option<ChildSlot>, ChildSlots);

/// A moment that the picture marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    /// The CPU fired one of its own timers.
    Own,
    /// The CPU fired a timer of this other CPU.
    Remote(u32),
    /// The CPU sent an interrupt to this other CPU.
    Sent(u32),
}

/// A promise: the CPU that made it, and the promised time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Promise {
    pub(super) cpu: u32,
    pub(super) wakeup: u64,
}

/// The contents of the picture.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    pub(super) cpus: BTreeMap<u32, Vec<Span<Activity>>>,
    /// The groups, sorted by level from the highest to the lowest, and within a level by number.
    pub(super) groups: Vec<(usize, Vec<Span<Duty>>)>,
    pub(super) marks: Vec<(u64, u32, Mark)>,
    pub(super) promises: Vec<Span<Promise>>,
}

/// A lane to which spans are still added.
struct Open<T> {
    done: Vec<Span<T>>,
    since: u64,
    now: T,
}

impl<T: Clone + PartialEq> Open<T> {
    const fn new(since: u64, now: T) -> Self {
        Self {
            done: Vec::new(),
            since,
            now,
        }
    }

    fn becomes(&mut self, at: u64, what: T) {
        if what == self.now {
            return;
        }
        let before = std::mem::replace(&mut self.now, what);
        self.close(at, before);
    }

    fn close(&mut self, at: u64, what: T) {
        if at > self.since {
            self.done.push(Span {
                from: self.since,
                to: at,
                what,
            });
            self.since = at;
        }
    }

    fn end(mut self, at: u64) -> Vec<Span<T>> {
        let now = self.now.clone();
        self.close(at, now);
        self.done
    }
}

/// Chooses the CPUs that are drawn. They are all CPUs if the picture has few. Otherwise they are the CPUs of the groups
/// around the latest timer, and then those of the groups with the most records.
fn chosen(picture: &Picture) -> BTreeSet<u32> {
    let all = 0..u32::try_from(picture.state.cpus.len()).unwrap_or(u32::MAX);
    if all.len() <= CPUS_MAX {
        return all.collect();
    }
    let mut busy: BTreeMap<usize, usize> = BTreeMap::new();
    // Those that do nothing come last.
    let nothing = all.clone().map(|cpu| (cpu, 0));
    let something = picture.records.iter().filter_map(|record| record.cpu);
    for (cpu, records) in nothing.chain(something.map(|cpu| (cpu, 1))) {
        if let Some((leaf, _)) = picture.state.cpus[cpu as usize].leaf {
            *busy.entry(leaf).or_default() += records;
        }
    }
    for cpu in picture.latest.iter().flat_map(|one| [one.cpu, one.of_cpu]) {
        if let Some((leaf, _)) = picture.state.cpus[cpu as usize].leaf {
            busy.insert(leaf, usize::MAX);
        }
    }
    let mut order: Vec<(usize, usize)> = busy.into_iter().collect();
    order.sort_by_key(|(leaf, records)| (std::cmp::Reverse(*records), *leaf));
    let mut set = BTreeSet::new();
    for (leaf, _) in order {
        let members = all.clone().filter(|cpu| {
            let of = picture.state.cpus[*cpu as usize].leaf;
            of.is_some_and(|(of, _)| of == leaf)
        });
        for cpu in members.take(CPUS_MAX - set.len().min(CPUS_MAX)) {
            set.insert(cpu);
        }
    }
    set
}

/// Returns the groups above these CPUs, the highest first.
fn above(state: &State, cpus: &BTreeSet<u32>) -> Vec<usize> {
    let mut groups = BTreeSet::new();
    for cpu in cpus {
        let mut next = state.cpus[*cpu as usize].leaf;
        while let Some((group, _)) = next {
            groups.insert(group);
            next = state.groups[group].parent;
        }
    }
    let mut groups: Vec<usize> = groups.into_iter().collect();
    groups.sort_by_key(|group| (std::cmp::Reverse(state.groups[*group].level), *group));
    groups
}

impl Lanes {
    /// Collects the contents of the picture.
    pub(super) fn of(picture: &Picture) -> Self {
        let mut state = picture.state.clone();
        // The tree is told of at the beginning, which may be a part of the picture.
        let is_tree = |record: &&Record| matches!(record.what, Recorded::Tree(_));
        let (tree, rest): (Vec<&Record>, Vec<&Record>) = picture.records.iter().partition(is_tree);
        tree.iter().for_each(|record| state.apply(record));
        let whole = Picture {
            state: state.clone(),
            ..picture.clone()
        };
        let chosen = chosen(&whole);
        let mut making = Making::new(picture, &state, &chosen);
        for record in rest {
            let at = record.time.clamp(picture.from, picture.to);
            state.apply(record);
            making.follow(record, at, &state);
        }
        making.end(picture.to, &state)
    }
}

/// Returns the mark of a timer that `cpu` fired, if the event is that.
fn fired(event: &Event, cpu: u32) -> Option<Mark> {
    match event {
        Event::WheelExpire { timeout, .. } if timeout.cpu.0 != cpu => {
            Some(Mark::Remote(timeout.cpu.0))
        }
        Event::WheelExpire { .. } | Event::ExpireEntry { .. } => Some(Mark::Own),
        _ => None,
    }
}

struct Making {
    from: u64,
    cpus: BTreeMap<u32, Open<Activity>>,
    groups: BTreeMap<usize, Open<Duty>>,
    order: Vec<usize>,
    lanes: Lanes,
    /// The promises that are still open.
    open: BTreeMap<u32, (u64, i64)>,
}

impl Making {
    fn new(picture: &Picture, state: &State, chosen: &BTreeSet<u32>) -> Self {
        let from = picture.from;
        let cpu = |cpu: &u32| {
            let activity = state.cpus[*cpu as usize].activity();
            (*cpu, Open::new(from, activity))
        };
        let order = above(state, chosen);
        let group = |group: &usize| {
            let now = &state.groups[*group];
            (*group, Open::new(from, (now.migrator, now.active)))
        };
        let open = chosen.iter().filter_map(|cpu| {
            let (since, wakeup) = state.cpus[*cpu as usize].promise?;
            Some((*cpu, (since.max(from), wakeup)))
        });
        Self {
            from,
            cpus: chosen.iter().map(cpu).collect(),
            groups: order.iter().map(group).collect(),
            open: open.collect(),
            lanes: Lanes::default(),
            order,
        }
    }

    fn follow(&mut self, record: &Record, at: u64, state: &State) {
        if let Some(cpu) = record.cpu
            && let Some(lane) = self.cpus.get_mut(&cpu)
        {
            lane.becomes(at, state.cpus[cpu as usize].activity());
            let mark = match record.what {
                Recorded::Library { event, .. } => fired(&event, cpu),
                Recorded::Machine(MachineEvent::IpiSendCpu { of_cpu, .. }) if of_cpu != cpu => {
                    Some(Mark::Sent(of_cpu))
                }
                _ => None,
            };
            if let Some(mark) = mark.filter(|_| record.time >= self.from) {
                self.lanes.marks.push((at, cpu, mark));
            }
        }
        match record.what {
            Recorded::Library {
                event: Event::Hierarchy { step, .. },
                ..
            } => self.step(step, at),
            Recorded::Machine(MachineEvent::CpuOnline { of_cpu, .. }) => {
                if let Some(lane) = self.cpus.get_mut(&of_cpu) {
                    lane.becomes(at, state.cpus[of_cpu as usize].activity());
                }
            }
            _ => {}
        }
    }

    fn step(&mut self, step: Step, at: u64) {
        match step {
            Step::State { group, new, .. } => {
                if let Some(lane) = self.groups.get_mut(&(group.0 as usize)) {
                    lane.becomes(at, (new.migrator(), new.active()));
                }
            }
            Step::Wakeup { cpu, time } if self.cpus.contains_key(&cpu.0) => {
                self.promises(cpu.0, at, (!time.is_forever()).then(|| time.as_nanos()));
            }
            _ => {}
        }
    }

    fn promises(&mut self, cpu: u32, at: u64, wakeup: Option<i64>) {
        let before = self.open.get(&cpu).copied();
        if before.map(|(_, wakeup)| wakeup) == wakeup {
            return;
        }
        if let Some((since, wakeup)) = self.open.remove(&cpu) {
            self.promised(cpu, since, at, wakeup);
        }
        if let Some(wakeup) = wakeup {
            self.open.insert(cpu, (at, wakeup));
        }
    }

    fn promised(&mut self, cpu: u32, from: u64, to: u64, wakeup: i64) {
        let wakeup = u64::try_from(wakeup).unwrap_or(0);
        let what = Promise { cpu, wakeup };
        self.lanes.promises.push(Span { from, to, what });
    }

    fn end(mut self, to: u64, _state: &State) -> Lanes {
        for (cpu, (since, wakeup)) in std::mem::take(&mut self.open) {
            self.promised(cpu, since, to, wakeup);
        }
        let mut lanes = self.lanes;
        lanes.cpus = (self.cpus.into_iter())
            .map(|(cpu, lane)| (cpu, lane.end(to)))
            .collect();
        let mut groups = self.groups;
        lanes.groups = (self.order.into_iter())
            .filter_map(|group| Some((group, groups.remove(&group)?.end(to))))
            .collect();
        lanes
    }
}
