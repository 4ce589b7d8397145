use super::plan::nth;
use super::{Arguments, Placement};
use crate::scheduling::Policy;
use clap::{Args, FromArgMatches};
use std::time::Duration;

fn parsed(line: &str) -> Result<Arguments, String> {
    let command = Arguments::augment_args(clap::Command::new("latency"));
    let matches = command.try_get_matches_from(line.split_whitespace());
    let matches = matches.map_err(|error| error.to_string())?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.to_string())
}

fn refused(line: &str) -> String {
    let refusal = parsed(line).and_then(|arguments| {
        let settled = arguments.settle().map_err(|failure| failure.to_string());
        settled.map(|_| ())
    });
    refusal.expect_err(line)
}

#[test]
fn threads_differ_by_the_distance() {
    let arguments = parsed("latency -t3 -i 200 -d 50 -p 80").unwrap();
    let plan = arguments.settle().unwrap();
    let place = |micros| Placement {
        cpu: None,
        priority: 80,
        interval: Duration::from_micros(micros),
    };
    assert_eq!(plan.threads, [200, 250, 300].map(place));
}

#[test]
fn a_histogram_makes_all_threads_alike() {
    let plan = parsed("latency -t 2 -h 40 -p5").unwrap();
    let plan = plan.settle().unwrap();
    assert_eq!(plan.threads[0], plan.threads[1]);
    assert_eq!(plan.buckets, 40);
}

#[test]
fn threads_are_dealt_to_cpus_in_turn() {
    let dealt: Vec<_> = (0..4).map(|number| nth(&[3, 5, 8], number)).collect();
    assert_eq!(dealt, [Some(3), Some(5), Some(8), Some(3)]);
    assert_eq!(nth(&[], 7), None);
}

#[test]
fn nonsense_is_refused_with_what_would_be_right() {
    for (line, says) in [
        ("latency --policy other -p 3", "has no priorities"),
        ("latency -p 100", "..=99"),
        ("latency -a 99999", "99999"),
        ("latency -a 3-1", "did you mean \"1-3\"?"),
        ("latency -i 0", "1..=1000000"),
        ("latency --against sleep", "measured twice"),
        ("latency --timer sundial", "possible values"),
        ("latency -S -t", "cannot be used with"),
    ] {
        let error = refused(line);
        assert!(error.contains(says), "{line}: {error}");
    }
}

#[test]
fn zero_is_what_it_is_in_cyclictest() {
    let endless = parsed("latency -D 0 -b 0 -l 0").unwrap();
    let plan = endless.settle().unwrap();
    assert_eq!((plan.duration, plan.limit, plan.loops), (None, None, None));
    let own = parsed("latency -p 0").unwrap();
    let plan = own.settle().unwrap();
    assert_eq!((plan.policy, plan.threads[0].priority), (Policy::Fifo, 2));
    for (line, policy, priority) in [
        ("latency --policy rr", Policy::Rr, 2),
        ("latency --policy other -p 0", Policy::Other, 0),
        ("latency", Policy::Other, 0),
    ] {
        let plan = parsed(line).unwrap().settle().unwrap();
        assert_eq!((plan.policy, plan.threads[0].priority), (policy, priority));
    }
}

#[test]
fn a_list_behind_an_exclamation_mark_names_what_is_left_out() {
    let (online, usable) = ("0-7".parse().unwrap(), "0-3".parse().unwrap());
    let cpus = |list| super::plan::cpu_list(list, &online, &usable);
    assert_eq!(cpus("!1-2").unwrap().to_string(), "0,3");
    let isolated = cpus("3,6").unwrap().to_string();
    assert_eq!(isolated, "3,6", "isolated ones may be named");
    let none = cpus("!0-3").expect_err("none is left");
    assert!(none.to_string().contains("leaves no CPU of 0-3"), "{none}");
}
