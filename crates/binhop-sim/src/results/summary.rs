//! `Summary` summarises the values of one metric over the placements.
//!
//! - Undefined values do not count.
//! - The mean is the sum with Kahan's compensation, divided by the number of values.
//! - The deviation is that of a sample (divisor n-1), by Welford's method.
//! - Quantiles interpolate linearly between neighbours (Hyndman and Fan's type 7).
//! - NaN is greater than any number. It is the least or greatest value only if all values are NaN.
//!
//! Values are taken in the order of the placements, so equal input gives equal bits. Polars computes the same
//! bits for groups of rows; a test of Python compares them.

use std::cmp::Ordering;

/// `Summary` holds the statistics of some values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The number of values that are defined.
    pub n: usize,
    /// The mean; `None` without values.
    pub mean: Option<f64>,
    /// The standard deviation; `None` for fewer than two values.
    pub deviation: Option<f64>,
    /// The least value.
    pub min: Option<f64>,
    /// The greatest value.
    pub max: Option<f64>,
    /// The place of the first of the least values. It is 0 if no value is defined.
    pub least: usize,
    /// The place of the first of the greatest values. It is 0 if no value is defined.
    pub greatest: usize,
    /// The quantiles of the shares that were asked for.
    pub quantiles: Vec<Option<f64>>,
}

impl Summary {
    /// Summarises the values. Each share is the part of the values below its quantile, from 0 to 1.
    #[must_use]
    pub fn of(values: &[Option<f64>], shares: &[f64]) -> Self {
        let mut sorted: Vec<(usize, f64)> = values
            .iter()
            .enumerate()
            .filter_map(|(place, value)| value.map(|value| (place, value)))
            .collect();
        let n = sorted.len();
        let (mean, deviation) = moments(sorted.iter().map(|&(_, value)| value));
        sorted.sort_by(|(_, a), (_, b)| ascending(*a, *b)); // stable: among equals the first placement stays first
        let numbers = sorted.partition_point(|(_, value)| !value.is_nan());
        let greatest_number = if numbers == 0 { n } else { numbers };
        let max = greatest_number.checked_sub(1).map(|last| sorted[last].1);
        let greatest = max.and_then(|max| sorted.iter().find(|(_, value)| ascending(*value, max).is_eq()));
        Self {
            n,
            mean,
            deviation,
            min: sorted.first().map(|&(_, value)| value),
            max,
            least: sorted.first().map_or(0, |&(place, _)| place),
            greatest: greatest.map_or(0, |&(place, _)| place),
            quantiles: shares.iter().map(|&share| quantile(&sorted, share)).collect(),
        }
    }
}

fn ascending(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// Returns the mean and the standard deviation of a sample.
fn moments(values: impl Iterator<Item = f64>) -> (Option<f64>, Option<f64>) {
    let (mut n, mut sum, mut lost) = (0.0, 0.0, 0.0);
    let (mut middle, mut squares) = (0.0, 0.0);
    for value in values {
        n += 1.0;
        let exact = value - lost;
        let next = sum + exact;
        lost = (next - sum) - exact;
        sum = next;
        let distance = value - middle;
        middle += distance / n;
        squares += distance * (value - middle);
    }
    ((n > 0.0).then(|| sum / n), (n > 1.0).then(|| (squares / (n - 1.0)).sqrt()))
}

/// Returns a quantile of sorted values.
fn quantile(sorted: &[(usize, f64)], share: f64) -> Option<f64> {
    let place = sorted.len().checked_sub(1)? as f64 * share;
    let [below, above] = [place.floor(), place.ceil()].map(|place| sorted[place as usize].1);
    Some(if below == above { below } else { (above - below) * (place - place.floor()) + below })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_values_have_the_statistics_of_a_textbook() {
        let values = [2.0, 4.0, 4.0, 5.0, 10.0].map(Some);
        let found = Summary::of(&values, &[0.25, 0.5, 0.95]);
        assert_eq!((found.n, found.mean, found.deviation), (5, Some(5.0), Some(3.0)));
        assert_eq!((found.min, found.max, found.least, found.greatest), (Some(2.0), Some(10.0), 0, 4));
        assert_eq!(found.quantiles, [Some(4.0), Some(4.0), Some(9.0)]);
    }

    #[test]
    fn undefined_values_do_not_count_and_places_are_those_of_the_placements() {
        let found = Summary::of(&[None, Some(3.0), Some(1.0), None, Some(3.0), Some(1.0)], &[0.5]);
        assert_eq!((found.n, found.mean, found.quantiles), (4, Some(2.0), vec![Some(2.0)]));
        assert_eq!((found.least, found.greatest), (2, 1));
    }

    #[test]
    fn one_value_has_no_deviation_and_no_value_has_no_statistics() {
        let one = Summary::of(&[Some(7.0)], &[0.05, 0.95]);
        assert_eq!((one.mean, one.deviation, one.quantiles), (Some(7.0), None, vec![Some(7.0); 2]));
        let none = Summary::of(&[None, None], &[0.5]);
        assert_eq!(none, Summary { quantiles: vec![None], ..Summary::default() });
    }

    #[test]
    fn the_sum_does_not_lose_small_values_beside_a_large_one() {
        let values: Vec<_> = std::iter::once(1e16).chain([1.0; 10]).map(Some).collect();
        assert_eq!(Summary::of(&values, &[]).mean, Some((1e16 + 10.0) / 11.0));
    }
}
