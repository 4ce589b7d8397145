//! Tests that tasks in several queues get the shares of a single queue, except that no task gets more than one CPU.

use super::*;

/// The time between two comparisons of a CPU with another CPU.
const PERIOD: u64 = 10 * MS;

/// CPUs, each with a queue, and tasks that compute for ever.
struct Cpus {
    /// Queues, declared last so that they are dropped first: a task that is queued must not be dropped.
    queues: Vec<FairQueue<u32>>,
    running: Vec<Option<usize>>,
    tasks: Vec<Pin<Box<Entity<u32>>>>,
    weights: Vec<u64>,
    served: Vec<u64>,
    moves: u64,
    now: u64,
}

impl Cpus {
    /// Creates tasks of these weights and enqueues them on the CPUs in turn.
    fn new(cpus: usize, weights: Vec<u64>, request: u64) -> Self {
        let unit = Weight::UNIT.get();
        let mut new = Self {
            queues: (0..cpus).map(|_| FairQueue::default()).collect(),
            running: std::vec![None; cpus],
            tasks: weights
                .iter()
                .map(|weight| entity(Weight::clamped(weight * unit), request))
                .collect(),
            served: std::vec![0; weights.len()],
            moves: 0,
            now: 0,
            weights,
        };
        for task in 0..new.tasks.len() {
            new.enqueue(task % cpus, task);
        }
        new
    }

    fn enqueue(&mut self, cpu: usize, task: usize) {
        let number = u32::try_from(task).expect("few");
        let _preempts = self.queues[cpu]
            .enqueue(self.tasks[task].as_ref(), number, at(self.now))
            .expect("it is in no other one");
    }

    fn put_back(&mut self, cpu: usize) {
        if let Some(task) = self.running[cpu].take() {
            self.enqueue(cpu, task);
        }
    }

    fn run(&mut self, until: u64, step: u64) {
        while self.now < until {
            let looks = self.now.is_multiple_of(PERIOD);
            for cpu in 0..self.queues.len() {
                if self.queues[cpu].account(at(self.now)).is_due() {
                    self.put_back(cpu);
                }
                if looks {
                    let turn = usize::try_from(self.now / PERIOD).expect("small");
                    let others = self.queues.len() - 1;
                    self.balance(cpu, (cpu + 1 + turn % others) % (others + 1));
                }
                if self.running[cpu].is_none() {
                    let next = self.queues[cpu].pick(at(self.now));
                    self.running[cpu] = next.map(|task| task as usize);
                }
                if let Some(task) = self.running[cpu] {
                    self.served[task] += step;
                }
            }
            self.now += step;
        }
    }

    /// Balances two CPUs: tasks move from one to the other, in one direction.
    fn balance(&mut self, own: usize, other: usize) {
        let here = self.queues[own].standing(at(self.now));
        let there = self.queues[other].standing(at(self.now));
        if here.is_empty() || there.is_empty() {
            return;
        }
        let (here, there) = (
            self.caught_up(own, here, there),
            self.caught_up(other, there, here),
        );
        if !self.pull(own, here, other) {
            self.pull(other, there, own);
        }
    }

    fn caught_up(&mut self, cpu: usize, stands: Standing, other: Standing) -> Standing {
        let caught_up = stands.caught_up(other);
        self.queues[cpu].shift(stands, caught_up);
        caught_up
    }

    /// Returns true if a task moved.
    fn pull(&mut self, to: usize, mut stands: Standing, from: usize) -> bool {
        let before = self.moves;
        for _ in 0..8 {
            let Some(task) = self.queues[from].pull_for(&mut stands, at(self.now)) else {
                break;
            };
            self.enqueue(to, task as usize);
            self.moves += 1;
            let off = self.queues[to].standing(at(self.now)).ahead_of(stands);
            assert!(off.abs() <= 16, "it stands where it was said: {off}");
        }
        self.moves > before
    }

    /// Returns the distance of the worst share from its entitlement, as a fraction of the entitlement. The request that
    /// a task has open now is no error.
    fn error(&self, request: u64) -> f64 {
        let total: u64 = self.served.iter().sum();
        let mut entitled: Vec<f64> = std::vec![0.0; self.weights.len()];
        let mut open: Vec<usize> = (0..self.weights.len()).collect();
        let most = total as f64 / self.queues.len() as f64;
        let mut left = total as f64;
        // What a heavy task cannot use goes to the others.
        loop {
            let weights: u64 = open.iter().map(|&task| self.weights[task]).sum();
            let part = |task: usize| left * self.weights[task] as f64 / weights as f64;
            let heavy: Vec<usize> = open.iter().copied().filter(|&t| part(t) > most).collect();
            if heavy.is_empty() {
                open.iter().for_each(|&task| entitled[task] = part(task));
                break;
            }
            open.retain(|task| !heavy.contains(task));
            left -= most * heavy.len() as f64;
            heavy.iter().for_each(|&task| entitled[task] = most);
        }
        let errors = self.served.iter().zip(&entitled);
        errors
            .map(|(&served, &entitled)| {
                let off = (served as f64 - entitled).abs() - request as f64;
                off.max(0.0) / entitled
            })
            .fold(0.0, f64::max)
    }
}

impl Drop for Cpus {
    fn drop(&mut self) {
        // Before the tasks.
        self.queues.clear();
    }
}

fn in_turn(count: usize, weights: &[u64]) -> Vec<u64> {
    weights.iter().copied().cycle().take(count).collect()
}

#[test]
#[cfg_attr(miri, ignore = "ten seconds of several CPUs")]
fn shares_over_several_cpus_are_those_of_one() {
    for (cpus, weights, request) in [
        (2, in_turn(3, &[1]), 3 * MS),
        (2, in_turn(9, &[1]), 3 * MS),
        (2, in_turn(10, &[1, 2, 3, 4]), 3 * MS),
        (4, in_turn(10, &[1, 2, 3, 4]), 3 * MS),
        (2, in_turn(1_000, &[1, 2, 3, 4]), MS / 10),
        (2, std::vec![100, 1, 1, 1], 3 * MS),
        (2, std::vec![1, 100, 1, 100, 1, 1], 3 * MS),
        (3, std::vec![5, 1, 1, 1, 1], 3 * MS),
    ] {
        let count = weights.len();
        let mut cpus = Cpus::new(cpus, weights, request);
        cpus.run(10_000 * MS, MS / 10);
        let (error, moves) = (cpus.error(request), cpus.moves);
        assert!(error < 0.01, "{count} tasks, {moves} moves: {error}");
        // The mechanism is not to be dearer than what it does away with.
        assert!(moves < 300, "{count} tasks");
    }
}

/// A task that weighs more than all others has a CPU for itself, and the others of its queue are owed nothing for that.
#[test]
#[cfg_attr(miri, ignore = "seconds of two CPUs")]
fn what_a_queue_could_not_be_given_is_forgotten() {
    let mut cpus = Cpus::new(2, std::vec![100, 1, 1, 1, 1, 1], 3 * MS);
    let late = cpus.tasks[5].as_ref();
    assert_eq!(cpus.queues[1].dequeue(late, at(0)), Some(Some(5)));
    cpus.run(5_000 * MS, MS / 10);
    assert_eq!(cpus.queues[0].waiting(), 0, "it is alone");
    assert_eq!(cpus.running[0].take(), Some(0));
    cpus.enqueue(0, 5);
    cpus.queues[0].retire(at(cpus.now));
    let before = cpus.served.clone();
    cpus.run(6_000 * MS, MS / 10);
    for (task, before) in before.iter().enumerate().skip(1) {
        let served = cpus.served[task] - before;
        assert!(served.abs_diff(400 * MS) < 100 * MS, "{task}: {served}");
    }
}

#[test]
fn a_pinned_task_is_pulled_by_no_other_cpu() {
    let request = Request::new(Span::from_nanos(MS)).expect("within bounds");
    let pinned = Box::pin(Entity::pinned_if(true, Weight::UNIT, request));
    let [other, late] = [entity(Weight::UNIT, 2 * MS), entity(Weight::UNIT, 3 * MS)];
    let mut queue = FairQueue::default();
    for (number, task) in [&pinned, &other, &late].into_iter().enumerate() {
        let number = u32::try_from(number).expect("few");
        let queued = queue.enqueue(task.as_ref(), number, at(0));
        assert!(queued.is_ok());
    }
    let mut idler = FairQueue::<u32>::default().standing(at(0));
    assert_eq!(queue.pull_for(&mut idler, at(0)), Some(1));
    assert_eq!(
        queue.pull(at(0)),
        Some(2),
        "the earliest deadline is not its"
    );
    assert_eq!(queue.pull(at(0)), None);
    assert_eq!(queue.pick(at(0)), Some(0));
    // Here the one that is owed time stays, and the one that could move is ahead.
    let mut queue = FairQueue::default();
    for (number, task) in [&other, &pinned].into_iter().enumerate() {
        let number = u32::try_from(number).expect("few");
        let queued = queue.enqueue(task.as_ref(), number, at(0));
        assert!(queued.is_ok());
    }
    assert_eq!(queue.pick(at(0)), Some(1));
    let back = queue.enqueue(pinned.as_ref(), 1, at(0));
    assert!(back.is_ok());
    assert_eq!(queue.pull(at(0)), Some(0));
    assert_eq!(queue.pull(at(0)), None);
}

#[test]
fn a_queue_that_ends_gives_all_tasks_out_pinned_ones_and_those_in_debt() {
    let request = Request::new(Span::from_nanos(MS)).expect("within bounds");
    let pinned = Box::pin(Entity::pinned_if(true, Weight::UNIT, request));
    let [other, sleeps] = [entity(Weight::UNIT, 2 * MS), entity(Weight::UNIT, MS)];
    let mut queue = FairQueue::default();
    for (number, task) in [&sleeps, &pinned, &other].into_iter().enumerate() {
        let number = u32::try_from(number).expect("few");
        let queued = queue.enqueue(task.as_ref(), number, at(0));
        assert!(queued.is_ok());
    }
    assert_eq!(queue.pick(at(0)), Some(0));
    let sleep = queue.sleep(sleeps.as_ref(), at(MS));
    assert!(matches!(sleep, Ok(Sleep::Delayed)), "it owes time");
    let taken: Vec<_> = std::iter::from_fn(|| queue.take_any()).collect();
    assert_eq!(taken, [1, 2]);
    assert_eq!((queue.runnable(), queue.delayed()), (0, 0));
    let again = queue.enqueue(sleeps.as_ref(), 0, at(MS));
    assert!(again.is_ok(), "the queue let it go");
}

/// A queue that was empty had no share in the service that the other queues received meanwhile.
#[test]
fn what_comes_into_an_empty_queue_is_owed_nothing() {
    let [one, two] = [entity(Weight::UNIT, 3 * MS), entity(Weight::UNIT, 3 * MS)];
    let [mut here, mut there] = [FairQueue::default(), FairQueue::default()];
    let _queued = here.enqueue(one.as_ref(), 0, at(0)).expect("it is new");
    assert_eq!(here.pick(at(0)), Some(0));
    let (ran, empty) = (here.standing(at(50 * MS)), there.standing(at(50 * MS)));
    assert_eq!(ran.ahead_of(empty), 50 * 1_000_000);
    let level = empty.level_with(ran);
    there.shift(empty, level);
    let _queued = there
        .enqueue(two.as_ref(), 1, at(50 * MS))
        .expect("it is new");
    assert_eq!(there.standing(at(50 * MS)).ahead_of(ran), 0);
    here.retire(at(50 * MS));
}
