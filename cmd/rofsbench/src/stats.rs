//! What a list of samples says.

/// Order statistics of samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// How many samples.
    pub count: usize,
    /// Half of the samples are below it.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// A quarter of the samples is below it.
    pub low: f64,
    /// Three quarters of the samples are below it.
    pub high: f64,
}

impl Summary {
    /// Of no sample: none. Samples that are no number are left out.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> =
            samples.iter().copied().filter(|value| !value.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            count: sorted.len(),
            median: quantile(&sorted, 0.5)?,
            min: *sorted.first()?,
            max: *sorted.last()?,
            low: quantile(&sorted, 0.25)?,
            high: quantile(&sorted, 0.75)?,
        })
    }
}

/// The value below which this part of the samples is: the point at index
/// `part * (count - 1)` of the sorted samples, between two of them by straight
/// line (type 7 of Hyndman and Fan, as R and NumPy do by default).
fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let at = part * sorted.len().checked_sub(1)? as f64;
    let below = *sorted.get(at.floor() as usize)?;
    let above = *sorted.get(at.ceil() as usize)?;
    Some(below + (above - below) * at.fract())
}

/// The median alone.
pub fn median(samples: &[f64]) -> Option<f64> {
    Summary::of(samples).map(|summary| summary.median)
}

#[cfg(test)]
mod tests {
    use super::{Summary, median};

    #[test]
    fn medians_by_hand() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[4.0]), Some(4.0));
        assert_eq!(median(&[9.0, 1.0]), Some(5.0));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[7.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[f64::NAN, 2.0]), Some(2.0));
    }

    /// Of 1, 2, 4, 8, 16: the quarter points are the second and the fourth. Of
    /// 1, 2, 3, 4: at indices 0.75 and 2.25, so 1.75 and 3.25.
    #[test]
    fn spread_by_hand() {
        let five = Summary { count: 5, median: 4.0, min: 1.0, max: 16.0, low: 2.0, high: 8.0 };
        assert_eq!(Summary::of(&[8.0, 1.0, 16.0, 2.0, 4.0]), Some(five));
        let four = Summary { count: 4, median: 2.5, min: 1.0, max: 4.0, low: 1.75, high: 3.25 };
        assert_eq!(Summary::of(&[4.0, 3.0, 2.0, 1.0]), Some(four));
    }
}
