//! What a serving mount tells about itself: to `microfs status`, and to those
//! who collect metrics.

mod metrics;
mod prometheus;
mod report;
mod socket;

pub use self::metrics::Metrics;
pub use self::report::{Report, Source};
pub use self::socket::{ask, serve};
