//! The suites on the rig's own hosts: one that defers the rearm of the device to a flush point, one whose interrupt
//! rearms the device itself, and one with a preemptible soft stage.

mod deferred {
    tickless_conformance::conformance!(tickless_conformance::Deferred, skips: 0);
}

mod immediate {
    tickless_conformance::conformance!(tickless_conformance::Immediate, skips: 0);
}

mod preemptible {
    tickless_conformance::conformance!(tickless_conformance::Preemptible, skips: 0);
}
