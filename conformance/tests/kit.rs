//! Tests of the kit itself: its suites fail on hosts that are broken on purpose, and the kit leaves out no suite and no
//! case.

use std::fs;
use std::path::Path;

use tickless_conformance::suite::panic_of;
use tickless_conformance::suites::{self, exactness, hotplug, locality, soft, start, suspend};
use tickless_conformance::virtual_host::{Config, Fault};
use tickless_conformance::{Capabilities, Deferred, VirtualHost};
use tickless_core::platform::Waiting;

/// The settings of a host with one fault.
enum Broken<const FAULT: u8> {}

impl<const FAULT: u8> Config for Broken<FAULT> {
    const DEFERRED_REARM: bool = true;
    const WAITING: Waiting = Waiting::Spin;
    const EXPIRY_BUDGET: u32 = u32::MAX;
    const NAME: &'static str = "a broken host";
    const FAULT: Option<Fault> = Some(match FAULT {
        LATE_DEVICE => Fault::LateDevice,
        LOST_KICK => Fault::LostKick,
        _ => Fault::LostSoftStage,
    });
}

const LATE_DEVICE: u8 = 0;
const LOST_KICK: u8 = 1;
const LOST_SOFT_STAGE: u8 = 2;

/// Checks that a case passes on a host, and fails on the same host with a fault.
fn assert_notices(case: &str, intact: fn(), broken: fn()) {
    assert_eq!(panic_of(intact), None, "{case} on an intact host");
    assert!(panic_of(broken).is_some(), "{case} does not notice a fault");
}

macro_rules! notices {
    ($fault:ident: $($suite:ident::$case:ident),+ $(,)?) => {$(
        assert_notices(
            stringify!($suite::$case),
            $suite::$case::<Deferred>,
            $suite::$case::<VirtualHost<Broken<$fault>>>,
        );
    )+};
}

#[test]
fn the_suites_notice_a_device_that_is_armed_a_tick_late() {
    notices!(LATE_DEVICE:
        start::a_first_start_arms_the_device_once,
        suspend::the_device_is_written_again_on_waking_up,
        exactness::devices_fire_exactly_when_the_first_timer_is_due,
    );
}

#[test]
fn the_suites_notice_a_kick_that_is_lost() {
    notices!(LOST_KICK:
        start::a_start_without_a_cpu_kicks_the_cpu_that_gets_the_timer,
        locality::kicks_that_wait_are_not_repeated,
        hotplug::a_kick_that_got_lost_does_not_swallow_others,
    );
}

#[test]
fn the_suites_notice_a_soft_stage_that_does_not_run() {
    notices!(LOST_SOFT_STAGE:
        soft::soft_timers_run_behind_hard_ones,
        soft::the_end_of_the_soft_stage_arms_for_what_is_left,
    );
}

#[test]
fn every_suite_is_part_of_the_macro() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/suites");
    let mut files: Vec<String> = fs::read_dir(place)
        .expect("it is there")
        .map(|file| file.expect("it can be listed").path())
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .filter(|name| name != "mod")
        .collect();
    files.sort_unstable();
    let mut suites: Vec<&str> = suites::ALL.iter().map(|suite| suite.name).collect();
    suites.sort_unstable();
    assert_eq!(suites, files);
}

#[test]
fn every_public_function_of_a_suite_is_a_case() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/suites");
    for suite in suites::ALL {
        let path = place.join(suite.name).with_extension("rs");
        let text = fs::read_to_string(path).expect("the source of a suite");
        let functions = text.lines().filter_map(|line| {
            let function = line.strip_prefix("pub fn ")?;
            function.split(['<', '(']).next()
        });
        let mut functions: Vec<&str> = functions.collect();
        let mut cases: Vec<&str> = suite.cases.iter().map(|case| case.name).collect();
        functions.sort_unstable();
        cases.sort_unstable();
        assert_eq!(cases, functions, "{}", suite.name);
    }
}

#[test]
fn what_a_host_lacks_is_named() {
    let lacking = Capabilities::CPUS.and(Capabilities::TRACE);
    assert_eq!(lacking.to_string(), "second CPU and no trace");
    assert!(Capabilities::ALL.contains(lacking));
    assert!(lacking.without(Capabilities::ALL).is_empty());
}
