//! A crowd of CPUs around one slow counter, in the order of virtual time.
//!
//! A [machine](crate::machine) executes all work that an event causes on a CPU in one piece. So if several CPUs tick at
//! one moment, the first has read three times before the second begins. This order would decide which CPU waits for
//! which, the very question of this module. So here every read, every step on the shared word and every lock is an
//! event of its own. The work of CPUs between these events only takes the time that the profile says. The rules of a
//! combined read are those of the core ([`Waiting`], [`Word`]).
//!
//! # What a CPU does
//!
//! The tick comes on all CPUs at one moment, except for the spread of the interrupt. At each tick a CPU reads the clock
//! to see which timers are due, locks its run queue, reads the clock for it, accounts, unlocks, and reads the clock to
//! program its device. One CPU also updates the record of the time, and reads the counter during the update: a CPU that
//! reads the clock meanwhile waits, and a CPU that began its read before reads again (spec TIM-17). Between ticks a CPU
//! computes and wakes tasks of other CPUs. For a wake-up it locks the other CPU's run queue, reads the clock, and wakes
//! the task. The record and the run queues are the locks that are held across a read.

mod line;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use tickless_conformance::random::Random;
use tickless_core::clock::combined::{Step, Waiting, Word};

use self::line::Line;
use crate::baseline::Reads;
use crate::model::cost_model::CostModel;
use crate::model::profile::Profile;
use crate::model::time::Picos;
use crate::model::topology::Topology;

/// The word, whose value is the number of the read. The number only advances and has no other meaning.
type Number = Word<32>;

/// The composition of the crowd, and the time for which it is watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) cpus: u32,
    /// The way to read the slow counter; `None` for a fast counter.
    pub(super) reads: Option<Reads>,
    pub(super) tick: Picos,
    /// Tasks of other CPUs that each CPU wakes in ten ticks.
    pub(super) wakes: u32,
    /// True if run queues and the record are locked across reads. Otherwise CPUs wait for each other only at the
    /// counter.
    pub(super) has_locks: bool,
    pub(super) length: Picos,
    pub(super) seed: u64,
}

/// The results of a crowd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// CPU time that was left for computing.
    pub(super) computing: Picos,
    /// CPU time in reads of the clock, and the number of these reads.
    pub(super) reading: Picos,
    pub(super) reads: u64,
    /// Reads that were done again, because the record had changed.
    pub(super) again: u64,
    /// CPU time waiting for a run queue or the record.
    pub(super) waiting: Picos,
    /// Reads of the counter itself.
    pub(super) served: u64,
    /// The longest time in which a CPU did not compute.
    pub(super) stalled: Picos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Enter,
    Read,
    /// Brings the record forward, from here to `Written`.
    Write,
    Written,
    Lock,
    Account,
    Wake,
    Unlock,
}

const TICK: &[Op] = &[
    Op::Enter,
    Op::Read,
    Op::Lock,
    Op::Read,
    Op::Account,
    Op::Unlock,
    Op::Read,
];
/// The tick of the CPU that brings the record forward.
const TICK_OF_KEEPER: &[Op] = &[
    Op::Enter,
    Op::Read,
    Op::Write,
    Op::Read,
    Op::Written,
    Op::Lock,
    Op::Read,
    Op::Account,
    Op::Unlock,
    Op::Read,
];
const WAKE: &[Op] = &[Op::Lock, Op::Read, Op::Wake, Op::Unlock];
/// The CPU that brings the record forward.
const KEEPER: u32 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The CPU computes until the next tick or wake-up.
    Computes,
    /// The next operation.
    Operation,
    /// The CPU has the line, and looks at the word.
    Looks,
    /// The CPU has the line alone, and tries to lock the word.
    Locks,
    /// The CPU has its sample.
    Sampled,
    /// The CPU has the line alone, and publishes.
    Publishes,
    /// The read is over.
    HasRead,
}

#[derive(Debug)]
struct Cpu {
    phase: Phase,
    script: &'static [Op],
    place: usize,
    /// The CPU whose run queue the script locks.
    target: u32,
    next_tick: Picos,
    next_wake: Picos,
    /// The time from which on the CPU does not compute.
    since: Picos,
    /// The time from which on the CPU reads, or waits for a lock.
    began: Picos,
    /// The record, when the read began.
    record: u64,
    waiting: Option<Waiting<32>>,
    found: Number,
}

#[derive(Debug, Default)]
struct RunQueue {
    holder: Option<u32>,
    waiting: VecDeque<u32>,
}

#[derive(Debug)]
pub(super) struct Crowd {
    setting: Setting,
    model: CostModel,
    spread: Picos,
    cpus: Vec<Cpu>,
    queue: BinaryHeap<Reverse<(Picos, u64, u32)>>,
    events: u64,
    random: Random,
    run_queues: Vec<RunQueue>,
    /// The sequence number of the record, odd while it is updated.
    record: u64,
    readers: Vec<u32>,
    word: Number,
    line: Line,
    /// The CPUs that poll a copy of the word.
    pollers: Vec<u32>,
    /// The time from which on the counter serves the next read.
    free: Picos,
    figures: Figures,
}

/// Watches a crowd on the machine of `profile`; `None` if that cannot have so many CPUs.
pub(super) fn watch(profile: &Profile, setting: Setting) -> Option<Figures> {
    let topology = profile.topology.resized(setting.cpus)?;
    Some(Crowd::new(profile, &topology, setting).run())
}

impl Crowd {
    fn new(profile: &Profile, topology: &Topology, setting: Setting) -> Self {
        let fire = &profile.costs.device_fire;
        let cpus = (0..setting.cpus).map(|_| Cpu {
            phase: Phase::Computes,
            script: &[],
            place: 0,
            target: 0,
            next_tick: setting.tick,
            next_wake: Picos::FOREVER,
            since: Picos::ZERO,
            began: Picos::ZERO,
            record: 0,
            waiting: None,
            found: Number::START,
        });
        Self {
            model: CostModel::new(&profile.costs, topology),
            spread: fire.high - fire.low,
            cpus: cpus.collect(),
            queue: BinaryHeap::new(),
            events: 0,
            random: Random::new(setting.seed),
            run_queues: (0..setting.cpus).map(|_| RunQueue::default()).collect(),
            record: 0,
            readers: Vec::new(),
            word: Number::START,
            line: Line::new(topology),
            pollers: Vec::new(),
            free: Picos::ZERO,
            figures: Figures::default(),
            setting,
        }
    }

    fn run(mut self) -> Figures {
        for cpu in 0..self.setting.cpus {
            self.cpu(cpu).next_wake = self.next_wake(Picos::ZERO);
            self.computes(cpu, Picos::ZERO);
        }
        let end = self.setting.length;
        while let Some(Reverse((at, _, cpu))) = self.queue.pop()
            && at < end
        {
            self.happens(cpu, at);
        }
        for cpu in &self.cpus {
            let stalled = end.saturating_sub(cpu.since);
            self.figures.stalled = self.figures.stalled.max(stalled);
        }
        self.figures
    }

    fn cpu(&mut self, cpu: u32) -> &mut Cpu {
        &mut self.cpus[cpu as usize]
    }

    /// Schedules `cpu` to continue at `at`, with `phase`.
    fn goes_on(&mut self, cpu: u32, at: Picos, phase: Phase) {
        self.cpu(cpu).phase = phase;
        self.events += 1;
        self.queue.push(Reverse((at, self.events, cpu)));
    }

    fn happens(&mut self, cpu: u32, at: Picos) {
        match self.cpu(cpu).phase {
            Phase::Computes => self.begins(cpu, at),
            Phase::Operation => self.operates(cpu, at),
            Phase::Looks => self.looks(cpu, at),
            Phase::Locks => self.locks(cpu, at),
            Phase::Sampled => {
                let has_it = self.line.writes(&self.model, cpu, at);
                self.goes_on(cpu, has_it, Phase::Publishes);
            }
            Phase::Publishes => {
                let number = self.figures.served;
                let own = self.cpu(cpu).found.locked();
                assert_eq!(self.word, own, "no holder is replaced");
                self.word = own.publish(number);
                self.invalidates(at);
                self.has_read(cpu, at);
            }
            Phase::HasRead => self.has_read(cpu, at),
        }
    }

    /// Returns the time of the next wake-up by a CPU that computes from `now` on.
    fn next_wake(&mut self, now: Picos) -> Picos {
        if self.setting.wakes == 0 || self.setting.cpus < 2 {
            return Picos::FOREVER;
        }
        let mean = self.setting.tick * 10;
        now + Picos(
            self.random
                .below(2 * mean.0 / u64::from(self.setting.wakes)),
        )
    }

    /// Lets `cpu` compute from `at` until its next tick or wake-up.
    fn computes(&mut self, cpu: u32, at: Picos) {
        let spread = Picos(self.random.below(self.spread.0 + 1));
        let end = self.setting.length;
        let state = self.cpu(cpu);
        let next = (state.next_tick + spread).min(state.next_wake);
        let until = next.min(end);
        if until > at {
            let (stalled, computing) = (at - state.since, until - at);
            state.since = next;
            self.figures.stalled = self.figures.stalled.max(stalled);
            self.figures.computing += computing;
        }
        self.goes_on(cpu, next.max(at), Phase::Computes);
    }

    /// Starts the work that `cpu` waited for, at `at`. Several missed ticks count as one.
    fn begins(&mut self, cpu: u32, at: Picos) {
        let tick = self.setting.tick;
        if self.cpu(cpu).next_tick <= at {
            let state = self.cpu(cpu);
            while state.next_tick <= at {
                state.next_tick += tick;
            }
            state.script = if cpu == KEEPER { TICK_OF_KEEPER } else { TICK };
            state.target = cpu;
        } else {
            let others = u64::from(self.setting.cpus - 1);
            let away = u32::try_from(1 + self.random.below(others)).unwrap_or(1);
            let next_wake = self.next_wake(at);
            let target = (cpu + away) % self.setting.cpus;
            let state = self.cpu(cpu);
            state.script = WAKE;
            state.target = target;
            state.next_wake = next_wake;
        }
        self.cpu(cpu).place = 0;
        self.operates(cpu, at);
    }

    /// `cpu` begins its next operation at `at`.
    fn operates(&mut self, cpu: u32, at: Picos) {
        let charges = self.model.charges;
        let state = self.cpu(cpu);
        let Some(op) = state.script.get(state.place).copied() else {
            return self.computes(cpu, at);
        };
        if op == Op::Read {
            return self.reads(cpu, at);
        }
        state.place += 1;
        let is_lock = matches!(op, Op::Lock | Op::Unlock | Op::Write | Op::Written);
        if is_lock && !self.setting.has_locks {
            return self.goes_on(cpu, at, Phase::Operation);
        }
        let takes = match op {
            Op::Enter => charges.irq_user,
            Op::Account => charges.tick,
            Op::Wake => charges.wake,
            Op::Write | Op::Read => {
                self.record += 1;
                charges.exchange
            }
            Op::Written => {
                self.record += 1;
                for reader in std::mem::take(&mut self.readers) {
                    let waited = at - self.cpu(reader).began;
                    self.figures.waiting += waited;
                    let comes = at + charges.line(self.model.distance(cpu, reader));
                    self.goes_on(reader, comes, Phase::Operation);
                }
                charges.exchange
            }
            Op::Lock => {
                let target = self.cpu(cpu).target;
                let run_queue = &mut self.run_queues[target as usize];
                if run_queue.holder.is_some() {
                    run_queue.waiting.push_back(cpu);
                    let state = self.cpu(cpu);
                    state.began = at;
                    // Whatever it is woken for, it is not to compute.
                    state.phase = Phase::Operation;
                    return;
                }
                run_queue.holder = Some(cpu);
                charges.lock + charges.line(self.model.distance(target, cpu))
            }
            Op::Unlock => {
                let target = self.cpu(cpu).target;
                let run_queue = &mut self.run_queues[target as usize];
                run_queue.holder = run_queue.waiting.pop_front();
                if let Some(next) = run_queue.holder {
                    let waited = at - self.cpu(next).began;
                    self.figures.waiting += waited;
                    let comes = at + charges.hand(self.model.distance(cpu, next));
                    self.goes_on(next, comes, Phase::Operation);
                }
                Picos::ZERO
            }
        };
        self.goes_on(cpu, at + takes, Phase::Operation);
    }

    fn reads(&mut self, cpu: u32, at: Picos) {
        let record = self.record;
        let writes = cpu == KEEPER;
        let state = self.cpu(cpu);
        state.began = at;
        state.record = record;
        state.waiting = None;
        if !record.is_multiple_of(2) && !writes {
            state.phase = Phase::Operation;
            self.readers.push(cpu);
            return;
        }
        match self.setting.reads {
            None => {
                let counter = self.model.charges.counter;
                self.goes_on(cpu, at + counter, Phase::HasRead);
            }
            Some(Reads::Direct) => self.samples(cpu, at, Phase::HasRead),
            Some(Reads::Combined) => {
                let has_it = self.line.loads(&self.model, cpu, at);
                self.goes_on(cpu, has_it, Phase::Looks);
            }
        }
    }

    /// Lets `cpu` read the counter itself, after the reads that were requested before.
    fn samples(&mut self, cpu: u32, at: Picos, then: Phase) {
        let charges = self.model.charges;
        let from = at.max(self.free);
        self.free = from + charges.slow_counter_serial;
        self.figures.served += 1;
        let takes = charges.slow_counter.max(charges.slow_counter_serial);
        self.goes_on(cpu, from + takes, then);
    }

    fn looks(&mut self, cpu: u32, at: Picos) {
        let word = self.word;
        let state = self.cpu(cpu);
        let waiting = state.waiting.get_or_insert(Waiting::for_any(word));
        match waiting.judge(word) {
            Step::Leave(_) => self.has_read(cpu, at),
            Step::Wait => self.pollers.push(cpu),
            Step::Lead => {
                state.found = word;
                let has_it = self.line.writes(&self.model, cpu, at);
                self.goes_on(cpu, has_it, Phase::Locks);
            }
        }
    }

    fn locks(&mut self, cpu: u32, at: Picos) {
        let found = self.cpu(cpu).found;
        if self.word != found {
            // It took the line from all who poll, for nothing.
            self.invalidates(at);
            return self.looks(cpu, at);
        }
        self.word = self.word.locked();
        self.invalidates(at);
        self.samples(cpu, at, Phase::Sampled);
    }

    /// Notes that the word was written, so that each CPU that polls the word has to fetch it again.
    fn invalidates(&mut self, at: Picos) {
        for poller in std::mem::take(&mut self.pollers) {
            let has_it = self.line.loads(&self.model, poller, at);
            self.goes_on(poller, has_it, Phase::Looks);
        }
    }

    /// Ends the read of `cpu`, unless the record changed meanwhile.
    fn has_read(&mut self, cpu: u32, at: Picos) {
        let record = self.record;
        let state = self.cpu(cpu);
        let took = at - state.began;
        let is_old = state.record != record && cpu != KEEPER;
        if !is_old {
            state.place += 1;
        }
        self.figures.reading += took;
        self.figures.reads += 1;
        self.figures.again += u64::from(is_old);
        self.operates(cpu, at);
    }
}
