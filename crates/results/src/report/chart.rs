//! Curves as SVG.

use std::fmt::Write;

use crate::html::escape;

/// How many colors the page has.
pub(crate) const COLORS: usize = 8;
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 56.0;
const BOTTOM: f64 = 24.0;
const TOP: f64 = 8.0;
const RIGHT: f64 = 8.0;

/// One line.
pub(super) struct Curve {
    /// What to call it.
    pub(super) name: String,
    /// Epoch and value.
    pub(super) points: Vec<(f64, f64)>,
}

/// Several lines over the same epochs.
pub(super) struct Chart {
    pub(super) curves: Vec<Curve>,
}

impl Chart {
    /// The picture.
    pub(super) fn svg(&self) -> String {
        let points = self.curves.iter().flat_map(|curve| &curve.points).filter(|point| point.1.is_finite());
        let (mut low, mut high, mut last) = (f64::INFINITY, f64::NEG_INFINITY, 1.0_f64);
        for (epoch, value) in points {
            (low, high, last) = (low.min(*value), high.max(*value), last.max(*epoch));
        }
        if low > high {
            return "<p>no figures yet</p>".to_owned();
        }
        let ticks = ticks(low, high);
        let (low, high) = (ticks[0], ticks[ticks.len() - 1]);
        let x = |epoch: f64| LEFT + (WIDTH - LEFT - RIGHT) * epoch / last;
        let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - low) / (high - low);
        let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=img>");
        for tick in &ticks {
            let (height, end) = (y(*tick), WIDTH - RIGHT);
            let _ = write!(
                svg,
                "<line class=grid x1={LEFT} x2={end} y1={height:.1} y2={height:.1} /><text x={:.1} y={:.1} \
                 text-anchor=end>{}</text>",
                LEFT - 6.0,
                height + 4.0,
                number(*tick)
            );
        }
        for tick in ticks_of_epochs(last) {
            let (name, anchor) =
                if tick == 0.0 { ("epoch 0".to_owned(), "start") } else { (tick.to_string(), "middle") };
            let _ =
                write!(svg, "<text x={:.1} y={} text-anchor={anchor}>{name}</text>", x(tick), HEIGHT - 6.0);
        }
        for (index, curve) in self.curves.iter().enumerate() {
            let places: Vec<String> = curve
                .points
                .iter()
                .filter(|point| point.1.is_finite())
                .map(|(epoch, value)| format!("{:.1},{:.1}", x(*epoch), y(*value)))
                .collect();
            let _ = write!(
                svg,
                "<polyline class=curve stroke=\"var(--c{})\" points=\"{}\"><title>{}</title></polyline>",
                index % COLORS,
                places.join(" "),
                escape(&curve.name)
            );
        }
        svg.push_str("</svg>");
        svg
    }
}

/// Three to seven round numbers that reach from at most `low` to at least `high`.
pub(crate) fn ticks(low: f64, high: f64) -> Vec<f64> {
    let span = if high > low { high - low } else { high.abs().max(1.0) * 0.1 };
    let step = round_step(span / 5.0);
    let first = (low / step).floor();
    let last = (high / step).ceil().max(first + 1.0);
    (0..=(last - first) as usize).map(|index| (first + index as f64) * step).collect()
}

fn ticks_of_epochs(last: f64) -> Vec<f64> {
    let step = round_step(last / 8.0).max(1.0);
    (0..=(last / step) as usize).map(|index| index as f64 * step).collect()
}

/// 1, 2 or 5 times a power of ten, at least the wanted step.
fn round_step(wanted: f64) -> f64 {
    let power = 10_f64.powf(wanted.log10().floor());
    let factor =
        [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= wanted * 0.999_999).unwrap_or(10.0);
    factor * power
}

pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_around_the_values() {
        assert_eq!(ticks(0.0, 100.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        let ticks = ticks(3.7, 3.7);
        assert!(ticks[0] <= 3.7 && *ticks.last().unwrap() >= 3.7, "{ticks:?}");
        assert_eq!(ticks_of_epochs(200.0).last(), Some(&200.0));
        assert_eq!(number(0.1 + 0.2), "0.3");
    }

    #[test]
    fn a_curve_stays_within_its_picture() {
        let points = vec![(1.0, -5.0), (2.0, f64::NAN), (3.0, 7.5)];
        let svg = Chart { curves: vec![Curve { name: "a".into(), points }] }.svg();
        let places = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        let places: Vec<Vec<f64>> = places
            .split(' ')
            .map(|place| place.split(',').map(|part| part.parse().unwrap()).collect())
            .collect();
        assert_eq!(places.len(), 2);
        for place in places {
            assert!((LEFT..=WIDTH).contains(&place[0]) && (0.0..=HEIGHT).contains(&place[1]), "{place:?}");
        }
    }
}
