//! Axes.

/// Round numbers from 0 up to `most`, about so many.
pub fn linear(most: f64, about: f64) -> Vec<f64> {
    if !(most > 0.0 && most.is_finite()) {
        return vec![0.0];
    }
    let rough = most / about;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= rough);
    let step = step.unwrap_or(10.0) * power;
    (0..).map(|index| f64::from(index) * step).take_while(|tick| *tick <= most * 1.0001).collect()
}

/// 1, 2 and 5 times powers of ten from `least` to `most`, both above 0.
pub fn logarithmic(least: f64, most: f64) -> Vec<f64> {
    let (first, last) = (least.log10().floor() as i32, most.log10().ceil() as i32);
    let ticks =
        (first..=last).flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10f64.powi(power)));
    ticks.filter(|tick| (least * 0.9999..=most * 1.0001).contains(tick)).collect()
}

/// A tick's number, as short as it can be.
pub fn label(tick: f64) -> String {
    let text = format!("{tick:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::{label, linear, logarithmic};

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(
            linear(1.0, 5.0).iter().map(|tick| label(*tick)).collect::<Vec<_>>().join(" "),
            "0 0.2 0.4 0.6 0.8 1"
        );
        assert_eq!(linear(37.0, 4.0), [0.0, 10.0, 20.0, 30.0]);
        assert_eq!(linear(0.0, 4.0), [0.0]);
        assert_eq!(linear(f64::NAN, 4.0), [0.0]);
        let ticks: Vec<_> = logarithmic(0.5, 20.0).iter().map(|tick| label(*tick)).collect();
        assert_eq!(ticks, ["0.5", "1", "2", "5", "10", "20"]);
    }
}
