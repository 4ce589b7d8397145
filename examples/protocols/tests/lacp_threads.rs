//! LACP on the timers of the process.

use tickless::Worker;
use tickless_core::time::Span;
use tickless_protocols::host::{Host, UserSpace};
use tickless_protocols::lacp::{Activity, BondConfig, Rate, Station, SystemId};

fn station(number: u8) -> Station<UserSpace> {
    let mut station = Station::new(UserSpace, Span::from_millis(50));
    station.add(&BondConfig {
        system: SystemId {
            priority: 1,
            address: [2, 0, 0, 0, 0, number],
        },
        key: 1,
        ports: 2,
        rate: Rate::Fast,
        activity: Activity::Active,
    });
    station
}

/// Hands what `from` sends to `to`.
fn deliver(from: &mut Station<UserSpace>, to: &mut Station<UserSpace>) -> bool {
    let mut moved = from.run_due() > 0;
    while let Some(frame) = from.take_frame() {
        moved = true;
        to.deliver(frame.bond, frame.port, &frame.bytes).unwrap();
    }
    moved
}

#[test]
fn two_systems_on_one_worker_aggregate_their_links() {
    let worker = Worker::new().unwrap();
    let mut stations = [station(1), station(2)];
    let start = UserSpace.now();
    for one in &mut stations {
        one.set_link(0, 0, true);
        one.set_link(0, 1, true);
    }
    let is_done = |stations: &[Station<UserSpace>; 2]| {
        stations
            .iter()
            .flat_map(|one| one.bond(0).ports())
            .all(|port| port.is_distributing())
    };
    while !is_done(&stations) {
        let [one, other] = &mut stations;
        while deliver(one, other) | deliver(other, one) {}
        if !is_done(&stations) {
            let _ = worker.park();
        }
    }
    // The first period and the wait time, never less.
    assert!(UserSpace.now() >= start.saturating_add(Span::from_secs(3)));
    for one in &stations {
        one.bond(0).check();
    }
}
