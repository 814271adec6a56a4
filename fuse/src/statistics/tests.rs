use super::{Request, Statistics};

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
