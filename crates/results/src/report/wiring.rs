//! A cell as a drawing: nodes from left to right, edges with the names of their operations.

use std::fmt::Write;

use network::zoo::genotype::{CellEdge, CellWiring};

const STEP: f64 = 170.0;
const LEFT: f64 = 60.0;
const MIDDLE: f64 = 170.0;
const HEIGHT: f64 = 340.0;
const RADIUS: f64 = 16.0;

/// The picture of a cell.
pub(super) fn svg(wiring: &CellWiring) -> String {
    let nodes = wiring.len() + 2;
    let end = (place(nodes - 1).0 + STEP, MIDDLE);
    let mut svg = format!("<svg viewBox=\"0 0 {:.0} {HEIGHT}\" role=img>", end.0 + 70.0);
    for node in 2..nodes {
        // All nodes are concatenated.
        let (x, y) = place(node);
        let _ = write!(
            svg,
            "<path class=grid fill=none d=\"M{x:.1},{y:.1} Q{:.1},{:.1} {:.1},{:.1}\" />",
            f64::midpoint(x, end.0),
            HEIGHT + 10.0,
            end.0,
            end.1
        );
    }
    for (target, edges) in (2..).zip(wiring) {
        for (number, edge) in edges.iter().enumerate() {
            draw_edge(&mut svg, edge, target, number == 0);
        }
    }
    let names = ["k-2", "k-1"].map(str::to_owned).into_iter().chain((2..nodes).map(|node| node.to_string()));
    for (node, name) in names.enumerate() {
        draw_node(&mut svg, place(node), &name);
    }
    draw_node(&mut svg, end, "k");
    svg.push_str("</svg>");
    svg
}

/// The two inputs stand above each other, all others in a row.
fn place(node: usize) -> (f64, f64) {
    match node {
        0 => (LEFT, MIDDLE - 90.0),
        1 => (LEFT, MIDDLE + 90.0),
        _ => (LEFT + STEP * (node - 1) as f64, MIDDLE),
    }
}

fn draw_node(svg: &mut String, (x, y): (f64, f64), name: &str) {
    let _ = write!(
        svg,
        "<circle class=node cx={x:.1} cy={y:.1} r={RADIUS} /><text x={x:.1} y={:.1} text-anchor=middle>{name}</text>",
        y + 4.0
    );
}

/// The first edge of a node goes above the row, the second below; longer ones in wider curves.
fn draw_edge(svg: &mut String, edge: &CellEdge, target: usize, is_above: bool) {
    let (from, to) = (place(edge.from), place(target));
    let span = (to.0 - from.0) / STEP;
    let rise = if edge.from < 2 && span < 1.5 { 12.0 } else { 38.0 + 26.0 * span };
    let sign = match (edge.from, is_above) {
        (0, _) => -1.0,
        (1, _) => 1.0,
        (_, true) => -1.0,
        (_, false) => 1.0,
    };
    let control = (f64::midpoint(from.0, to.0), f64::midpoint(from.1, to.1) + sign * rise);
    let label = ((from.0 + 2.0 * control.0 + to.0) / 4.0, (from.1 + 2.0 * control.1 + to.1) / 4.0);
    let _ = write!(
        svg,
        "<path class=edge fill=none d=\"M{:.1},{:.1} Q{:.1},{:.1} {:.1},{:.1}\" />\
         <text x={:.1} y={:.1} text-anchor=middle>{}</text>",
        from.0,
        from.1,
        control.0,
        control.1,
        to.0,
        to.1,
        label.0,
        label.1 - 4.0,
        edge.operation.word()
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use network::zoo::genotype::{CellKind, Genotype};

    #[test]
    fn every_node_and_edge_is_drawn_within_the_picture() {
        let cells = Genotype::sphynx();
        let svg = svg(cells.wiring(CellKind::Normal));
        // Two inputs, four nodes, the output.
        assert_eq!(svg.matches("<circle").count(), 7);
        assert_eq!(svg.matches("class=edge").count(), 8);
        let width: f64 =
            svg.split("viewBox=\"0 0 ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        for part in svg.split("<text x=").skip(1) {
            let x: f64 = part.split(' ').next().unwrap().parse().unwrap();
            let y: f64 = part.split("y=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
            assert!((0.0..=width).contains(&x) && (0.0..=HEIGHT).contains(&y), "{x} {y}");
        }
    }
}
