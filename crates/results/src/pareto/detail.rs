//! Where a network's ReLUs are, before and after, and its mask.

use std::collections::BTreeSet;
use std::path::Path;

use network::mask::ActivationMask;
use network::shape::Shape;
use network::spec::NetworkSpec;
use serde::Serialize;

use recipes::checkpoint::{Checkpoint, CheckpointError, Part};
use recipes::recipe::{NetworkSection, Recipe};

/// Where the ReLUs of one result are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Detail {
    /// What the layers before belong to: the network with all its ReLUs.
    pub full_network: String,
    /// The layers in order; blocks where the reduction made other layers.
    pub layers: Vec<LayerRelus>,
    /// The mask's layers, where there is a mask.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub masks: Vec<MaskPicture>,
}

/// ReLUs of one layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerRelus {
    /// The layer.
    pub name: String,
    /// In the full network.
    pub before: u64,
    /// In the result.
    pub after: u64,
}

/// The mask of one ReLU layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MaskPicture {
    /// The layer.
    pub name: String,
    /// Channels of its map.
    pub channels: usize,
    /// Rows and columns of its map.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// ReLUs that stay.
    pub kept: u64,
    /// For each pixel, row by row: in how many channels its ReLU stays.
    #[serde(skip)]
    pub kept_channels: Vec<u32>,
}

impl Detail {
    /// Reads it from a run or a checkpoint, without weights.
    ///
    /// # Errors
    /// When it cannot be used.
    pub fn of_checkpoint(path: &Path) -> Result<Self, CheckpointError> {
        let checkpoint = Checkpoint::load(path, Part::Description)?;
        let spec = checkpoint.spec()?;
        let mask = checkpoint.mask(&spec)?;
        let state = &checkpoint.state;
        let full = NetworkSection::named(&state.recipe.network.name).build(state.input, state.classes.len());
        // A network from a file that has gone is shown without a before of its own.
        Ok(Self::new(full.as_ref().unwrap_or(&spec), &spec, mask.as_ref()))
    }

    /// Finds it by the recipe of a run that is not there: its network, and the mask if it names one. Nothing where the
    /// recipe does not tell, or the mask is gone.
    ///
    /// # Errors
    /// When the mask is another network's.
    pub fn of_recipe(recipe: &Recipe, mask: Option<&Path>) -> Result<Option<Self>, CheckpointError> {
        let Some((side, classes)) = recipe.data.set.dimensions() else { return Ok(None) };
        let side = recipe.data.side.unwrap_or(side);
        let build = |section: &NetworkSection| section.build(Shape::image(side), classes).ok();
        let Some(spec) = build(&recipe.network) else { return Ok(None) };
        let full = build(&NetworkSection::named(&recipe.network.name));
        let full = full.as_ref().unwrap_or(&spec);
        match (&recipe.mask, mask) {
            (None, _) => Ok(Some(Self::new(full, &spec, None))),
            (Some(_), None) => Ok(None),
            (Some(_), Some(path)) => {
                let mask = ActivationMask::from_file(path, &spec)?;
                Ok(Some(Self::new(full, &spec, Some(&mask))))
            }
        }
    }

    /// The ReLUs that are left.
    pub fn relus(&self) -> u64 {
        self.layers.iter().map(|layer| layer.after).sum()
    }

    /// Compares a network with the full one.
    pub fn new(full: &NetworkSpec, reduced: &NetworkSpec, mask: Option<&ActivationMask>) -> Self {
        let kept = counts(reduced, mask);
        let before = counts(full, None);
        let names: BTreeSet<&str> = before.iter().map(|(name, _, _)| name.as_str()).collect();
        let has_same_layers = kept.iter().all(|(name, _, _)| names.contains(name.as_str()));
        let key = |(name, place, _): &(String, String, u64)| match has_same_layers {
            true => name.clone(),
            false => place.clone(),
        };
        let mut layers: Vec<LayerRelus> = Vec::new();
        for (item, is_after) in
            before.iter().map(|item| (item, false)).chain(kept.iter().map(|item| (item, true)))
        {
            let name = key(item);
            let place = layers.iter().position(|layer| layer.name == name).unwrap_or_else(|| {
                layers.push(LayerRelus { name, before: 0, after: 0 });
                layers.len() - 1
            });
            let count = if is_after { &mut layers[place].after } else { &mut layers[place].before };
            *count += item.2;
        }
        let masks = mask.map_or_else(Vec::new, |mask| pictures(reduced, mask));
        Self { full_network: full.name().to_owned(), layers, masks }
    }
}

/// Name, place and ReLUs of every ReLU layer.
fn counts(spec: &NetworkSpec, mask: Option<&ActivationMask>) -> Vec<(String, String, u64)> {
    let count = |site: &network::walk::ReluSite| {
        mask.map_or(site.shape.scalars(), |mask| mask.relu_count_at(site.index))
    };
    spec.walk().sites().iter().map(|site| (site.name.clone(), site.place.to_string(), count(site))).collect()
}

fn pictures(spec: &NetworkSpec, mask: &ActivationMask) -> Vec<MaskPicture> {
    let picture = |site: &network::walk::ReluSite| {
        let (site_mask, shape) = (mask.site(site.index), site.shape);
        let kept_channels = (0..shape.height * shape.width)
            .map(|pixel| {
                let (row, column) = (pixel / shape.width, pixel % shape.width);
                let keeps = |channel: &usize| site_mask.keeps(shape, *channel, row, column);
                (0..shape.channels).filter(keeps).count() as u32
            })
            .collect();
        MaskPicture {
            name: site.name.clone(),
            channels: shape.channels,
            height: shape.height,
            width: shape.width,
            kept: mask.relu_count_at(site.index),
            kept_channels,
        }
    };
    spec.walk().sites().iter().map(picture).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use network::mask::{Bits, SiteMask};
    use network::transform::{Reduction, Reuse};
    use network::walk::StageIndex;
    use network::zoo;

    #[test]
    fn layers_that_lost_all_relus_stay_in_the_list() {
        let full = zoo::build("resnet10:m=4", 16, 10).unwrap();
        let reduction = Reduction { cull: [StageIndex(1)].into(), ..Reduction::default() };
        let reduced = reduction.apply(&full).unwrap();
        let detail = Detail::new(&full, &reduced, None);
        assert_eq!(detail.layers.len(), full.walk().sites().len());
        let first = detail.layers.iter().find(|layer| layer.name.starts_with("stage1")).unwrap();
        assert_eq!((first.before, first.after), (4 * 16 * 16, 0));
        let after: u64 = detail.layers.iter().map(|layer| layer.after).sum();
        assert_eq!(after, network::cost::Cost::of(&reduced).relus);
        assert!(detail.masks.is_empty());
    }

    #[test]
    fn other_layers_are_compared_by_blocks() {
        let full = zoo::build("resnet10:m=16", 16, 10).unwrap();
        let reduced = Reduction { reuse: Some(Reuse::new(4)), ..Reduction::default() }.apply(&full).unwrap();
        let detail = Detail::new(&full, &reduced, None);
        let sum = |of: fn(&LayerRelus) -> u64| detail.layers.iter().map(of).sum::<u64>();
        assert_eq!(sum(|layer| layer.before), network::cost::Cost::of(&full).relus);
        assert_eq!(sum(|layer| layer.after), network::cost::Cost::of(&reduced).relus);
    }

    #[test]
    fn a_mask_is_counted_pixel_by_pixel() {
        let spec = zoo::build("resnet10:m=4", 16, 10).unwrap();
        let mut sites: Vec<SiteMask> = spec.walk().sites().iter().map(|_| SiteMask::DropAll).collect();
        let shape = spec.walk().sites()[1].shape;
        // Two channels of the first pixel, one of the last.
        let keeps = |index: u64| [0, shape.pixels(), shape.scalars() - 1].contains(&index);
        sites[1] = SiteMask::Pixels(Bits::collect((0..shape.scalars()).map(keeps)));
        let mask = ActivationMask::new(&spec, sites).unwrap();
        let detail = Detail::new(&spec, &spec, Some(&mask));
        let picture = &detail.masks[1];
        assert_eq!((picture.kept, picture.kept_channels[0]), (3, 2));
        assert_eq!(picture.kept_channels.last(), Some(&1));
        assert_eq!(picture.kept_channels.iter().sum::<u32>(), 3);
        assert_eq!(detail.layers.iter().map(|layer| layer.after).sum::<u64>(), 3);
    }
}
