use super::{Answer, Failure, fit, has_capability, maps_everything};

#[test]
fn sizes_follow_getxattr_2() {
    assert!(matches!(fit(vec![1, 2, 3], 0), Ok(Answer::Size(3))));
    assert!(matches!(fit(vec![1, 2, 3], 3), Ok(Answer::Data(data)) if data == [1, 2, 3]));
    assert!(matches!(fit(vec![], 5), Ok(Answer::Data(data)) if data.is_empty()));
    let Err(Failure::Answer(short)) = fit(vec![1, 2, 3], 2) else { panic!("fits") };
    assert_eq!(short, rustix::io::Errno::RANGE);
}

#[test]
fn an_administrator_is_told_from_others() {
    let status = |hex: &str| format!("Name:\tx\nCapPrm:\t0\nCapEff:\t{hex}\nCapBnd:\t0\n");
    assert!(has_capability(&status("000001ffffffffff")));
    assert!(has_capability(&status("0000000000200000")));
    assert!(!has_capability(&status("0000000000000000")));
    assert!(!has_capability(&status("00000000001fffff")));
    assert!(!has_capability(""));
    assert!(maps_everything("         0          0 4294967295\n"));
    assert!(!maps_everything("         0       1000          1\n"));
}
