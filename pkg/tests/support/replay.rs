//! How to run a test that works from a seed once more.

/// Whether the long versions of the tests are asked for.
pub fn is_long() -> bool {
    std::env::var_os("MICROFS_LONG").is_some_and(|value| value == "1")
}

/// The seed that is asked for, if any.
pub fn wanted_seed() -> Option<u64> {
    let text = std::env::var("MICROFS_SEED").ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("MICROFS_SEED must be a number, not {text:?}")))
}

/// Says on standard error which command repeats the test, if that fails while
/// this is there.
pub struct Replay(pub u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("to repeat it: {}", command(self.0));
        }
    }
}

/// The command that runs the calling test with this seed.
fn command(seed: u64) -> String {
    let long = if is_long() { "MICROFS_LONG=1 " } else { "" };
    let (package, program) = (env!("CARGO_PKG_NAME"), env!("CARGO_CRATE_NAME"));
    let command = format!("{long}MICROFS_SEED={seed} cargo test -p {package} --test {program}");
    let thread = std::thread::current();
    // With one thread for all tests it is not named after the test.
    match thread.name().filter(|name| *name != "main") {
        Some(test) => format!("{command} -- --exact {test}"),
        None => command,
    }
}
