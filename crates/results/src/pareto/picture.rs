//! Layers before and after as bars, and masks as small pictures (SNL Fig. 4).

use std::fmt::Write;

use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::{ExtendedColorType, ImageEncoder};

use super::detail::{Detail, LayerRelus, MaskPicture};
use crate::html::escape;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 150.0;
/// Of a pixel whose ReLU stays in every channel; the page's first color, readable on light and dark paper.
const KEPT: [u8; 3] = [0x2f, 0x86, 0xdd];
/// Opacity of a pixel that keeps a single channel of many, so that it is seen at all.
const LEAST_OPACITY: f64 = 40.0;

impl Detail {
    /// Bars for every layer: all its ReLUs (or comparisons: `noun`) behind, those that stay before them.
    pub(super) fn bars(&self, noun: &str) -> String {
        let most = self.layers.iter().map(|layer| layer.before.max(layer.after)).max().unwrap_or(0).max(1);
        let room = WIDTH / self.layers.len().max(1) as f64;
        let mut svg =
            format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><title>{noun} of each layer</title>");
        for (index, LayerRelus { name, before, after }) in self.layers.iter().enumerate() {
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
    pub(super) fn mask_pictures(&self) -> String {
        let pictures = Masks { masks: &self.masks };
        pictures.render().expect("the template writes into memory alone")
    }
}

#[derive(Template)]
#[template(path = "masks.html")]
struct Masks<'a> {
    masks: &'a [MaskPicture],
}

impl MaskPicture {
    /// ReLUs of the layer without the mask.
    fn relus(&self) -> usize {
        self.channels * self.height * self.width
    }

    /// The picture as a page holds it.
    fn png(&self) -> String {
        STANDARD.encode(self.png_bytes())
    }

    /// One pixel for each of the map; the more channels keep their ReLU there, the stronger.
    fn png_bytes(&self) -> Vec<u8> {
        let opacity = |kept: &u32| match kept {
            0 => 0,
            kept => {
                let part = f64::from(*kept) / self.channels.max(1) as f64;
                (LEAST_OPACITY + (255.0 - LEAST_OPACITY) * part).round() as u8
            }
        };
        let pixel = |kept: &u32| [KEPT[0], KEPT[1], KEPT[2], opacity(kept)];
        let pixels: Vec<u8> = self.kept_channels.iter().flat_map(pixel).collect();
        let mut file = Vec::new();
        image::codecs::png::PngEncoder::new(&mut file)
            .write_image(&pixels, self.width as u32, self.height as u32, ExtendedColorType::Rgba8)
            .expect("a map has as many pixels as its sides say");
        file
    }
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
        let decoded = image::load_from_memory(&picture.png_bytes()).unwrap().to_rgba8();
        assert_eq!(decoded.dimensions(), (3, 1));
        let opacities: Vec<u8> = decoded.pixels().map(|pixel| pixel.0[3]).collect();
        assert_eq!((opacities[0], opacities[2]), (0, 255));
        assert!(opacities[1] > 40 && opacities[1] < 128);
        let detail = Detail { full_network: String::new(), layers: Vec::new(), masks: vec![picture] };
        assert!(detail.mask_pictures().contains("5 of 12"));
    }
}
