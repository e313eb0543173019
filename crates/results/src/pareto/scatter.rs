//! Points over a logarithmic axis, as SVG.

use std::fmt::Write;

use super::labels::{Labeled, places};
use crate::html::escape;
use crate::report::chart::{number, ticks};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 52.0;
const BOTTOM: f64 = 44.0;
const TOP: f64 = 12.0;
const RIGHT: f64 = 20.0;

/// Points that belong together.
pub(super) struct Series {
    pub(super) name: String,
    /// Which color of the page.
    pub(super) color: usize,
    /// Whose: ours are filled and numbered.
    pub(super) is_ours: bool,
    pub(super) marks: Vec<Mark>,
}

/// One point.
pub(super) struct Mark {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Written beside it.
    pub(super) label: String,
    /// Shown when pointed at.
    pub(super) title: String,
    /// Whether the line of the front goes through it.
    pub(super) on_front: bool,
}

/// Several series over one axis.
pub(super) struct Scatter {
    pub(super) x_title: String,
    pub(super) y_title: String,
    /// How a number of the axis is written.
    pub(super) x_text: fn(f64) -> String,
    pub(super) series: Vec<Series>,
}

impl Scatter {
    /// The picture with its legend; nothing where there are no points.
    pub(super) fn svg(&self) -> String {
        let Some(frame) = Frame::around(&self.series) else { return String::new() };
        let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">");
        let _ = write!(svg, "<title>{} against {}</title>", escape(&self.y_title), escape(&self.x_title));
        self.axes(&mut svg, &frame);
        // Ours come last, so that nothing covers them.
        for is_ours in [false, true] {
            for series in self.series.iter().filter(|series| series.is_ours == is_ours) {
                series.draw(&mut svg, &frame);
            }
        }
        self.labels(&mut svg, &frame);
        svg.push_str("</svg>");
        svg + &self.legend()
    }

    fn axes(&self, svg: &mut String, frame: &Frame) {
        for level in &frame.levels {
            let (at, text) = (frame.y(*level), number(*level));
            let end = WIDTH - RIGHT;
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{end}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 6.0,
                at + 4.0
            );
        }
        for value in round_numbers(frame.first, frame.last) {
            let (at, text) = (frame.x(value), (self.x_text)(value));
            let (bottom, below) = (HEIGHT - BOTTOM, HEIGHT - BOTTOM + 16.0);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
                 <text class=\"tick\" x=\"{at:.1}\" y=\"{below}\" text-anchor=\"middle\">{text}</text>"
            );
        }
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            HEIGHT - 6.0,
            escape(&self.x_title)
        );
    }

    fn labels(&self, svg: &mut String, frame: &Frame) {
        let marks = self.series.iter().flat_map(|series| &series.marks);
        let marks: Vec<&Mark> = marks.filter(|mark| mark.x > 0.0 && !mark.label.is_empty()).collect();
        let labeled: Vec<Labeled<'_>> = marks
            .iter()
            .map(|mark| Labeled { x: frame.x(mark.x), y: frame.y(mark.y), text: &mark.label })
            .collect();
        for (mark, place) in marks.iter().zip(places(&labeled)) {
            let text = escape(&mark.label);
            let _ = write!(
                svg,
                "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
                place.left, place.base
            );
        }
    }

    fn legend(&self) -> String {
        let mut text = String::from("<p class=\"legend\">");
        for series in self.series.iter().filter(|series| !series.marks.is_empty()) {
            let class = if series.is_ours { "dot" } else { "dot ring" };
            let _ = write!(
                text,
                "<span><i class=\"{class}\" style=\"color:var(--c{})\"></i>{}</span> ",
                series.color,
                escape(&series.name)
            );
        }
        text + "</p>\n"
    }
}

/// Where values stand in the picture.
struct Frame {
    /// Logarithms of the ends of the axis.
    first: f64,
    last: f64,
    /// Round numbers from the lowest to the highest.
    levels: Vec<f64>,
}

impl Frame {
    /// Around all points; none where there are none.
    fn around(series: &[Series]) -> Option<Self> {
        let marks = || series.iter().flat_map(|series| &series.marks).filter(|mark| mark.x > 0.0);
        let bounds = |of: fn(&Mark) -> f64| {
            marks().map(of).fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            })
        };
        let ((first, last), (low, high)) = (bounds(|mark| mark.x), bounds(|mark| mark.y));
        let levels = (first <= last).then(|| ticks(low, high))?;
        let (mut first, mut last) = (first.log10() - 0.08, last.log10() + 0.08);
        // A few points close together would have no number beneath them.
        while round_numbers(first, last).len() < 2 {
            (first, last) = (first - 0.1, last + 0.1);
        }
        Some(Self { first, last, levels })
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (value.log10() - self.first) / (self.last - self.first)
    }

    fn y(&self, value: f64) -> f64 {
        let (low, high) = (self.levels[0], self.levels[self.levels.len() - 1]);
        HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - low) / (high - low)
    }
}

impl Series {
    fn draw(&self, svg: &mut String, frame: &Frame) {
        let color = self.color;
        let mut front: Vec<&Mark> = self.marks.iter().filter(|mark| mark.on_front && mark.x > 0.0).collect();
        front.sort_by(|a, b| a.x.total_cmp(&b.x));
        if front.len() > 1 {
            let places: Vec<_> =
                front.iter().map(|mark| format!("{:.1},{:.1}", frame.x(mark.x), frame.y(mark.y))).collect();
            let dashes = if self.is_ours { "" } else { " stroke-dasharray=\"3 4\" stroke-opacity=\"0.5\"" };
            let _ = write!(
                svg,
                "<polyline class=\"curve\" stroke=\"var(--c{color})\"{dashes} points=\"{}\"/>",
                places.join(" ")
            );
        }
        for mark in self.marks.iter().filter(|mark| mark.x > 0.0) {
            let (left, top) = (frame.x(mark.x), frame.y(mark.y));
            let fill = if self.is_ours { format!("var(--c{color})") } else { "var(--paper)".to_owned() };
            let (radius, opacity) = match (self.is_ours, mark.on_front) {
                (true, true) => (6.0, 1.0),
                (true, false) => (5.0, 0.45),
                _ => (3.5, 1.0),
            };
            let _ = write!(
                svg,
                "<circle cx=\"{left:.1}\" cy=\"{top:.1}\" r=\"{radius}\" fill=\"{fill}\" fill-opacity=\"{opacity}\" \
                 stroke=\"var(--c{color})\" stroke-width=\"1.5\"><title>{}</title></circle>",
                escape(&mark.title)
            );
        }
    }
}

/// 1, 2 and 5 times powers of ten between two logarithms; powers alone where those are many.
fn round_numbers(first: f64, last: f64) -> Vec<f64> {
    let factors: &[f64] = if last - first > 4.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let powers = (first.floor() as i32)..=(last.ceil() as i32);
    let all = powers.flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)));
    all.filter(|value| (first..=last).contains(&value.log10())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_numbers_lie_within_the_axis() {
        assert_eq!(round_numbers(3.05, 4.75), [2000.0, 5000.0, 10_000.0, 20_000.0, 50_000.0]);
        assert_eq!(round_numbers(-1.9, 3.1), [0.1, 1.0, 10.0, 100.0, 1000.0]);
    }

    #[test]
    fn points_stay_within_their_picture() {
        let mark = |x, y| Mark { x, y, label: "1".into(), title: "<a>".into(), on_front: true };
        let series = Series {
            name: "ours".into(),
            color: 0,
            is_ours: true,
            marks: vec![mark(3264.0, 56.0), mark(557_056.0, 80.0), mark(0.0, 1.0)],
        };
        let scatter =
            Scatter { x_title: "ReLUs".into(), y_title: "%".into(), x_text: number, series: vec![series] };
        let svg = scatter.svg();
        // Nothing lies at zero on a logarithmic axis.
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains("&lt;a&gt;"));
        for place in svg.split("cx=\"").skip(1) {
            let left: f64 = place.split('"').next().unwrap().parse().unwrap();
            assert!((LEFT..=WIDTH).contains(&left), "{left}");
        }
        let one = Series { name: String::new(), color: 0, is_ours: true, marks: vec![mark(608.0, 91.3)] };
        let alone = Scatter { series: vec![one], ..scatter };
        // Two levels and two round numbers around the point.
        assert_eq!(alone.svg().matches("class=\"tick\"").count(), 4);
        let empty =
            Scatter { x_title: String::new(), y_title: String::new(), x_text: number, series: vec![] };
        assert_eq!(empty.svg(), "");
    }
}
