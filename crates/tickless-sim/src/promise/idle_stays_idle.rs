//! `idle_stays_idle`: a CPU that sleeps is not woken by its own device before it asked to be.
//!
//! Looked at in each interrupt of a device.

use crate::model::time::Picos;

/// By how much a device fires later than it was told: a step of one that counts slowly.
const LATE: Picos = Picos::from_micros(2);

/// What is wrong with a device that fires at `at`, and was `asked` for another time, which it may miss by `slop`.
///
/// A CPU that expected a short sleep may have left its device armed for a timer that is no more (spec LAZY-7): it fires
/// then, at `lazy`, for nothing. Only then, and only once in a sleep: the caller forgets the moment when the device
/// fires, because the interrupt arms it for what is first.
pub(crate) fn woken(at: Picos, asked: Picos, slop: Picos, lazy: Option<Picos>) -> Option<String> {
    let is_lazy = lazy.is_some_and(|lazy| at + slop >= lazy && at <= lazy + slop + LATE);
    (at + slop < asked && !is_lazy).then(|| format!("its device wakes it at {at}, not at {asked}"))
}

#[cfg(test)]
mod tests {
    use super::woken;
    use crate::model::time::Picos;

    #[test]
    fn a_lazy_device_wakes_its_cpu_at_its_moment_alone() {
        let at = Picos::from_micros;
        let kept = |fires, lazy| woken(at(fires), at(900), Picos::ZERO, lazy).is_none();
        assert!(!kept(100, None) && kept(900, None));
        assert!(kept(100, Some(at(100))));
        assert!(!kept(99, Some(at(100))) && !kept(200, Some(at(100))));
    }
}
