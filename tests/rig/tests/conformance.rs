//! The suites on the rig's own hosts: one that defers the rearm of the device to a flush point, one whose interrupt
//! rearms the device itself, and one with a preemptible soft stage.

mod deferred {
    tickless_rig::conformance!(tickless_rig::Deferred, skips: 0);
}

mod immediate {
    tickless_rig::conformance!(tickless_rig::Immediate, skips: 0);
}

mod preemptible {
    tickless_rig::conformance!(tickless_rig::Preemptible, skips: 0);
}
