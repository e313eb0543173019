//! Layers before and after as bars, and masks as small pictures (SNL Fig. 4).

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::{ExtendedColorType, ImageEncoder};

use super::detail::{Detail, LayerRelus, MaskPicture};
use crate::report::escape;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 150.0;
/// Of a pixel whose ReLU stays in every channel; the page's first color, readable on light and dark paper.
const KEPT: [u8; 3] = [0x2f, 0x86, 0xdd];
/// Opacity of a pixel that keeps a single channel of many, so that it is seen at all.
const LEAST_OPACITY: f64 = 40.0;

/// Bars for every layer: all ReLUs behind, those that stay before them.
pub(super) fn bars(detail: &Detail) -> String {
    let most = detail.layers.iter().map(|layer| layer.before.max(layer.after)).max().unwrap_or(0).max(1);
    let room = WIDTH / detail.layers.len().max(1) as f64;
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><title>ReLUs of each layer</title>");
    for (index, LayerRelus { name, before, after }) in detail.layers.iter().enumerate() {
        let tall = |count: u64| (HEIGHT - 4.0) * count as f64 / most as f64;
        let left = index as f64 * room + 0.1 * room;
        let _ = write!(svg, "<g><title>{}: {after} of {before}</title>", escape(name));
        for (count, class) in [(*before, "before"), (*after, "after")] {
            let _ = write!(
                svg,
                "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                HEIGHT - tall(count),
                0.8 * room,
                tall(count)
            );
        }
        svg.push_str("</g>");
    }
    svg.push_str("</svg>\n");
    svg
}

/// The masks of all layers.
pub(super) fn masks(pictures: &[MaskPicture]) -> String {
    let mut text = String::from("<div class=\"masks\">");
    for picture in pictures {
        let all = (picture.channels * picture.height * picture.width) as u64;
        let _ = writeln!(
            text,
            "<figure><img alt=\"mask of {name}\" width=\"96\" height=\"96\" src=\"data:image/png;base64,{data}\"/>\
             <figcaption>{name}<br/>{kept} of {all}</figcaption></figure>",
            name = escape(&picture.name),
            data = STANDARD.encode(png(picture)),
            kept = picture.kept,
        );
    }
    text + "</div>\n"
}

/// One pixel for each of the map; the more channels keep their ReLU there, the stronger.
fn png(picture: &MaskPicture) -> Vec<u8> {
    let opacity = |kept: &u32| match kept {
        0 => 0,
        kept => {
            let part = f64::from(*kept) / picture.channels.max(1) as f64;
            (LEAST_OPACITY + (255.0 - LEAST_OPACITY) * part).round() as u8
        }
    };
    let pixel = |kept: &u32| [KEPT[0], KEPT[1], KEPT[2], opacity(kept)];
    let pixels: Vec<u8> = picture.kept_channels.iter().flat_map(pixel).collect();
    let mut file = Vec::new();
    image::codecs::png::PngEncoder::new(&mut file)
        .write_image(&pixels, picture.width as u32, picture.height as u32, ExtendedColorType::Rgba8)
        .expect("a map has as many pixels as its sides say");
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_becomes_a_picture_of_its_pixels() {
        let picture = MaskPicture {
            name: "layer".into(),
            channels: 4,
            height: 1,
            width: 3,
            kept: 5,
            kept_channels: vec![0, 1, 4],
        };
        let decoded = image::load_from_memory(&png(&picture)).unwrap().to_rgba8();
        assert_eq!(decoded.dimensions(), (3, 1));
        let opacities: Vec<u8> = decoded.pixels().map(|pixel| pixel.0[3]).collect();
        assert_eq!((opacities[0], opacities[2]), (0, 255));
        assert!(opacities[1] > 40 && opacities[1] < 128);
        assert!(masks(&[picture]).contains("5 of 12"));
    }
}
