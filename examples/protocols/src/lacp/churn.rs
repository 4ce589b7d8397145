//! Churn Detection (clause 6.4.17; figures 6-23 for the actor and 6-24 for the partner): one machine for both.
//!
//! | state | on entry | leaves to |
//! |---|---|---|
//! | MONITOR | churn := false; starts the timer, 60 s | NO_CHURN when in sync; CHURN when the timer expires without |
//! | NO_CHURN | churn := false | MONITOR when not in sync |
//! | CHURN | churn := true, counted | NO_CHURN when in sync |
//!
//! Begin, or a port that is not enabled, forces MONITOR from any state, and holds the machine there: the 60 s count
//! from the end of that.

/// The states of a Churn Detection machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChurnState {
    /// Waits for the party to come into sync.
    Monitor,
    /// The party is in sync.
    NoChurn,
    /// The party did not come into sync in time.
    Churn,
}

/// The inputs of a Churn Detection machine.
#[derive(Clone, Copy, Debug)]
pub struct ChurnInputs {
    /// `BEGIN`: the system starts.
    pub begin: bool,
    /// `port_enabled`.
    pub port_enabled: bool,
    /// The party's Synchronization bit.
    pub sync: bool,
    /// The machine's timer expired since the last step.
    pub timer_expired: bool,
}

/// A command for the machine's timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChurnTimer {
    /// Start it, for 60 s from now.
    Start,
    /// Stop it if it runs.
    Stop,
}

/// One Churn Detection machine.
#[derive(Clone, Debug)]
pub struct Churn {
    state: ChurnState,
    /// Forced into MONITOR.
    is_held: bool,
    count: u64,
}

impl Default for Churn {
    fn default() -> Self {
        Self {
            state: ChurnState::Monitor,
            is_held: true,
            count: 0,
        }
    }
}

impl Churn {
    /// Makes at most one transition. `None` when there is none to make.
    ///
    /// An expiry outside of MONITOR is used up, and changes nothing.
    pub fn step(&mut self, inputs: ChurnInputs) -> Option<ChurnTimer> {
        if inputs.begin || !inputs.port_enabled {
            return self.hold();
        }
        let next = match self.state {
            ChurnState::Monitor if inputs.sync => ChurnState::NoChurn,
            ChurnState::Monitor if self.is_held => ChurnState::Monitor,
            ChurnState::Monitor if inputs.timer_expired => ChurnState::Churn,
            ChurnState::NoChurn if !inputs.sync => ChurnState::Monitor,
            ChurnState::Churn if inputs.sync => ChurnState::NoChurn,
            _ => return None,
        };
        self.is_held = false;
        self.state = next;
        Some(match next {
            ChurnState::Monitor => ChurnTimer::Start,
            ChurnState::NoChurn => ChurnTimer::Stop,
            ChurnState::Churn => {
                self.count += 1;
                ChurnTimer::Stop
            }
        })
    }

    fn hold(&mut self) -> Option<ChurnTimer> {
        let is_new = !self.is_held;
        self.is_held = true;
        self.state = ChurnState::Monitor;
        is_new.then_some(ChurnTimer::Stop)
    }

    /// Returns the machine's state.
    #[must_use]
    pub const fn state(&self) -> ChurnState {
        self.state
    }

    /// Returns true if the party should be in sync, and is not.
    #[must_use]
    pub const fn is_churning(&self) -> bool {
        matches!(self.state, ChurnState::Churn)
    }

    /// Returns the number of times that churn began.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::{Churn, ChurnInputs, ChurnState, ChurnTimer};

    const QUIET: ChurnInputs = ChurnInputs {
        begin: false,
        port_enabled: true,
        sync: false,
        timer_expired: false,
    };
    const SYNC: ChurnInputs = ChurnInputs {
        sync: true,
        ..QUIET
    };
    const EXPIRED: ChurnInputs = ChurnInputs {
        timer_expired: true,
        ..QUIET
    };
    const DISABLED: ChurnInputs = ChurnInputs {
        port_enabled: false,
        ..QUIET
    };
    const BEGIN: ChurnInputs = ChurnInputs {
        begin: true,
        ..QUIET
    };

    /// A machine in `state`, on its way through the transitions.
    fn machine(state: ChurnState) -> Churn {
        let mut churn = Churn::default();
        assert_eq!(churn.step(QUIET), Some(ChurnTimer::Start));
        match state {
            ChurnState::Monitor => {}
            ChurnState::NoChurn => assert_eq!(churn.step(SYNC), Some(ChurnTimer::Stop)),
            ChurnState::Churn => assert_eq!(churn.step(EXPIRED), Some(ChurnTimer::Stop)),
        }
        assert_eq!(churn.state(), state);
        churn
    }

    const ALL: [ChurnState; 3] = [ChurnState::Monitor, ChurnState::NoChurn, ChurnState::Churn];

    #[test]
    fn each_row_of_the_table() {
        use ChurnState::{Churn as Churning, Monitor, NoChurn};
        let rows = [
            (Monitor, QUIET, Monitor, None),
            (Monitor, SYNC, NoChurn, Some(ChurnTimer::Stop)),
            (Monitor, EXPIRED, Churning, Some(ChurnTimer::Stop)),
            (NoChurn, SYNC, NoChurn, None),
            (NoChurn, QUIET, Monitor, Some(ChurnTimer::Start)),
            (Churning, QUIET, Churning, None),
            (Churning, EXPIRED, Churning, None),
            (Churning, SYNC, NoChurn, Some(ChurnTimer::Stop)),
        ];
        for (state, inputs, expected, timer) in rows {
            let mut churn = machine(state);
            let churning_before = churn.count();
            assert_eq!(churn.step(inputs), timer, "{state:?} on {inputs:?}");
            assert_eq!(churn.state(), expected, "{state:?} on {inputs:?}");
            assert_eq!(churn.is_churning(), expected == Churning);
            let begins = u64::from(expected == Churning && state != Churning);
            assert_eq!(churn.count() - churning_before, begins);
        }
    }

    #[test]
    fn begin_and_a_disabled_port_force_monitor_from_any_state() {
        for state in ALL {
            for forced in [BEGIN, DISABLED] {
                for sync in [false, true] {
                    let mut churn = machine(state);
                    let forced = ChurnInputs { sync, ..forced };
                    assert_eq!(churn.step(forced), Some(ChurnTimer::Stop));
                    assert_eq!(churn.state(), ChurnState::Monitor);
                    // It is held there, whatever else happens.
                    let late = ChurnInputs {
                        timer_expired: true,
                        ..forced
                    };
                    assert_eq!(churn.step(late), None);
                    assert_eq!(churn.state(), ChurnState::Monitor);
                    // The 60 s begin when that ends.
                    assert_eq!(churn.step(QUIET), Some(ChurnTimer::Start));
                }
            }
        }
    }

    #[test]
    fn an_expiry_together_with_sync_is_no_churn() {
        let mut churn = machine(ChurnState::Monitor);
        churn.step(ChurnInputs {
            sync: true,
            ..EXPIRED
        });
        assert_eq!((churn.state(), churn.count()), (ChurnState::NoChurn, 0));
    }

    /// Regression (a): the machine looked at sync only when its timer expired.
    #[test]
    fn regression_a_no_churn_is_entered_when_sync_is_reached_not_when_the_timer_expires() {
        let mut churn = machine(ChurnState::Monitor);
        churn.step(SYNC);
        assert_eq!(churn.state(), ChurnState::NoChurn);
        let mut churn = machine(ChurnState::Churn);
        churn.step(SYNC);
        assert_eq!(churn.state(), ChurnState::NoChurn);
    }

    /// Regression (b): a timer that expired outside of MONITOR left the machine stuck.
    #[test]
    fn regression_b_an_expiry_outside_of_monitor_leaves_no_machine_stuck() {
        for (state, sync) in [(ChurnState::NoChurn, true), (ChurnState::Churn, false)] {
            let mut churn = machine(state);
            let late = ChurnInputs { sync, ..EXPIRED };
            assert_eq!(churn.step(late), None);
            assert_eq!(churn.state(), state);
            // All transitions go on to work: to NO_CHURN, back to MONITOR with a timer, and to CHURN by that timer.
            churn.step(SYNC);
            assert_eq!(churn.state(), ChurnState::NoChurn);
            assert_eq!(churn.step(QUIET), Some(ChurnTimer::Start));
            assert_eq!(churn.step(QUIET), None, "the late expiry does not count");
            let before = churn.count();
            churn.step(EXPIRED);
            assert_eq!(churn.state(), ChurnState::Churn);
            assert_eq!(churn.count(), before + 1);
        }
    }
}
