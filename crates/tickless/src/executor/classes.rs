//! The number of waiting tasks for each size of request. From these counts the shortest request is found.
//!
//! A task that wakes up and had a little more than its share is not picked at once, and the task that is picked instead
//! may run for its whole request. If that request is much longer than the request of the woken task, a decision is due
//! earlier: after the time of the shortest waiting request. This earlier decision is no rule of EEVDF, which decides at
//! the end of each request. The decision changes no share, and costs a tick (spec TICK-12 has the same rule for the end
//! of a slice's protection).
//!
//! Requests are counted by their power of two. So counting is an addition, and finding the shortest request reads one
//! word.

/// The number of powers of two of nanoseconds: requests are shorter than 2^32 ns.
const CLASSES: usize = 32;

/// The counts of one queue.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    counts: [u32; CLASSES],
    /// The bits of the classes that are not empty, one bit for each class.
    present: u32,
}

/// Returns the class of a request of so many nanoseconds.
pub(crate) fn class_of(nanos: u64) -> u8 {
    let power = nanos.max(1).ilog2().min(31);
    u8::try_from(power).unwrap_or(31)
}

impl Classes {
    /// Adds a task that waits.
    #[inline]
    pub(crate) fn add(&mut self, class: u8) {
        let count = &mut self.counts[usize::from(class) % CLASSES];
        *count = count.saturating_add(1);
        self.present |= 1 << (u32::from(class) % 32);
    }

    /// Removes a task that no longer waits.
    #[inline]
    pub(crate) fn remove(&mut self, class: u8) {
        let count = &mut self.counts[usize::from(class) % CLASSES];
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.present &= !(1 << (u32::from(class) % 32));
        }
    }

    /// Returns the upper limit of the requests in the shortest class that has any, in nanoseconds, if that class is
    /// shorter than `class`.
    #[inline]
    pub(crate) fn shorter_than(&self, class: u8) -> Option<u64> {
        let shortest = self.present.trailing_zeros();
        (shortest < u32::from(class)).then(|| 2 << shortest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_that_waits_is_found_and_forgotten() {
        let mut classes = Classes::default();
        let [short, long] = [200_000, 3_000_000].map(class_of);
        assert_eq!(classes.shorter_than(long), None, "none waits");
        classes.add(long);
        assert_eq!(classes.shorter_than(long), None, "none is shorter");
        classes.add(short);
        classes.add(short);
        assert_eq!(classes.shorter_than(long), Some(262_144));
        assert_eq!(classes.shorter_than(short), None);
        classes.remove(short);
        assert_eq!(classes.shorter_than(long), Some(262_144));
        classes.remove(short);
        assert_eq!(classes.shorter_than(long), None);
        assert_eq!([0, 1, u64::MAX].map(class_of), [0, 0, 31]);
    }
}
