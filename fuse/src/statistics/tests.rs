use std::time::Duration;

use super::{LATENCY_RANGES, Request, Statistics};

#[test]
fn every_kind_has_its_own_counter() {
    let statistics = Statistics::default();
    for (index, request) in Request::ALL.into_iter().enumerate() {
        for _ in 0..=index {
            statistics.count(request);
        }
    }
    for (index, request) in Request::ALL.into_iter().enumerate() {
        assert_eq!(statistics.requests(request), index as u64 + 1, "{}", request.name());
    }
    statistics.count_bytes(10);
    statistics.count_bytes(20);
    assert_eq!((statistics.bytes_read(), statistics.errors(), statistics.panics()), (30, 0, 0));
}

#[test]
fn times_are_counted_in_powers_of_two_microseconds() {
    let statistics = Statistics::default();
    let times = [(0, 0), (999, 0), (1000, 1), (1999, 1), (2000, 2), (1_000_000, 10)];
    for (nanoseconds, range) in times {
        let before = statistics.latency(Request::Read);
        statistics.count_latency(Request::Read, Duration::from_nanos(nanoseconds));
        let after = statistics.latency(Request::Read);
        let grown: Vec<_> = (0..LATENCY_RANGES).filter(|n| after[*n] > before[*n]).collect();
        assert_eq!(grown, [range], "{nanoseconds} ns");
    }
    statistics.count_latency(Request::Read, Duration::from_secs(1_000_000));
    assert_eq!(statistics.latency(Request::Read)[LATENCY_RANGES - 1], 1);
    assert_eq!(statistics.latency(Request::Lookup), [0; LATENCY_RANGES]);
}
