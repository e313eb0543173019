//! What a ReLU site does: all, nothing, a fixed part, or a learned part of its ReLUs.

use network::mask::{ActivationMask, Bits, SiteMask};
use network::shape::Shape;
use network::walk::{ReluSite, SiteIndex};

use super::parameters::{Declared, Role, Start};
use super::{AssembleError, Granularity, Parameters, TrainableNetwork};
use crate::tensor::{Device, Kind, Tensor, no_grad, to_floats};

/// What one site does.
pub(super) enum Activation {
    /// Every ReLU stays.
    Relu,
    /// None does.
    Identity,
    /// Those that went, as truth values over (1, channels, rows, columns).
    Mask { dropped: Tensor },
    /// `x + c (relu(x) - x)`, with the parameter of this number for `c`.
    Scored { keep: usize },
}

impl Activation {
    fn from_mask(mask: &SiteMask, shape: Shape, device: Device) -> Self {
        let (bits, height, width) = match mask {
            SiteMask::KeepAll => return Self::Relu,
            SiteMask::DropAll => return Self::Identity,
            SiteMask::Channels(bits) => (bits, 1, 1),
            SiteMask::Pixels(bits) => (bits, shape.height, shape.width),
        };
        let dropped: Vec<u8> = (0..bits.len()).map(|index| u8::from(!bits.get(index))).collect();
        let shape = [1, shape.channels as i64, height as i64, width as i64];
        Self::Mask { dropped: device.bytes(&dropped, &shape).to_kind(Kind::Bool) }
    }

    /// The same with a truth value for each scalar, whatever the mask.
    fn movable(mask: &SiteMask, shape: Shape, device: Device) -> Self {
        let shape_of_map = [1, shape.channels as i64, shape.height as i64, shape.width as i64];
        Self::Mask { dropped: device.bytes(&dropped(mask, shape), &shape_of_map).to_kind(Kind::Bool) }
    }

    pub(super) fn apply(&self, input: &Tensor, ceiling: Option<u8>, parameters: &Parameters) -> Tensor {
        let activate = || match ceiling {
            None => input.relu(),
            Some(ceiling) => input.clamp(0.0, f64::from(ceiling)),
        };
        match self {
            Self::Relu => activate(),
            Self::Identity => input.shallow_clone(),
            Self::Mask { dropped } if ceiling.is_none() => {
                // One pass back instead of four: a value passes where its ReLU went or does nothing.
                let blocked = input.gt(0.0).logical_or(dropped).logical_not();
                input.masked_fill(&blocked, 0.0)
            }
            Self::Mask { dropped } => input.where_self(dropped, &activate()),
            Self::Scored { keep } => {
                input.lerp_tensor(&activate(), &parameters.leaf(*keep).to_kind(input.kind()))
            }
        }
    }
}

/// For each scalar 1 where its ReLU went.
pub(super) fn dropped(mask: &SiteMask, shape: Shape) -> Vec<u8> {
    let places = (0..shape.channels)
        .flat_map(|channel| (0..shape.height).map(move |row| (channel, row)))
        .flat_map(|(channel, row)| (0..shape.width).map(move |column| (channel, row, column)));
    places.map(|(channel, row, column)| u8::from(!mask.keeps(shape, channel, row, column))).collect()
}

impl TrainableNetwork {
    /// Fixes which ReLUs stay, in a way that [`Self::move_mask`] can change without new tensors.
    ///
    /// # Errors
    /// As for [`Self::set_mask`].
    pub(crate) fn set_movable_mask(&mut self, mask: &ActivationMask) -> Result<(), AssembleError> {
        self.set_mask(mask)?;
        let device = self.setting.device;
        let movable = |site: &ReluSite| Activation::movable(self.mask.site(site.index), site.shape, device);
        self.activations = self.spec.walk().sites().iter().map(movable).collect();
        Ok(())
    }

    /// Changes which ReLUs stay, in place: a recorded step reads the new choice.
    ///
    /// # Panics
    /// If the mask is another network's, or the present one cannot be moved.
    pub(crate) fn move_mask(&mut self, mask: &ActivationMask) {
        for (site, activation) in self.spec.walk().sites().iter().zip(&mut self.activations) {
            let Activation::Mask { dropped: present } = activation else {
                panic!("a mask that can be moved")
            };
            let shape = present.size();
            let new = Tensor::from_slice(&dropped(mask.site(site.index), site.shape)).view(shape.as_slice());
            no_grad(|| present.copy_(&new.to_kind(Kind::Bool)));
        }
        self.mask = mask.clone();
    }

    /// Gives keep scores other values, in place; a list for each site.
    ///
    /// # Panics
    /// If the lists do not fit the scores.
    pub(crate) fn set_keep_scores(&mut self, scores: &[Vec<f32>]) {
        let keeps: Vec<(usize, &Vec<f32>)> = (self.activations.iter().zip(scores))
            .filter_map(|(activation, list)| match activation {
                Activation::Scored { keep } => Some((*keep, list)),
                _ => None,
            })
            .collect();
        for (keep, list) in keeps {
            let (_, mut master) = self.parameters.named().nth(keep).expect("the score is a parameter");
            let shape = master.size();
            no_grad(|| master.copy_(&Tensor::from_slice(list).view(shape.as_slice())));
        }
        self.parameters.refresh();
    }

    /// Fixes which ReLUs stay. Keep scores, if there were any, are forgotten.
    ///
    /// # Errors
    /// When the mask is another network's.
    pub fn set_mask(&mut self, mask: &ActivationMask) -> Result<(), AssembleError> {
        let sites = self.spec.walk().sites();
        let masks = sites.iter().map(|site| mask.fits(&self.spec).then(|| mask.site(site.index).clone()));
        let masks: Option<Vec<_>> = masks.collect();
        // A mask that does not fit says so by its own error.
        self.mask = ActivationMask::new(&self.spec, masks.unwrap_or_default())?;
        if self.has_keep_scores() {
            self.rebuild(Vec::new())?;
        }
        let activation = |site: &ReluSite| {
            Activation::from_mask(self.mask.site(site.index), site.shape, self.setting.device)
        };
        self.activations = self.spec.walk().sites().iter().map(activation).collect();
        Ok(())
    }

    /// Which ReLUs stay; with keep scores, all of them until the scores are cut.
    pub fn mask(&self) -> &ActivationMask {
        &self.mask
    }

    /// Gives every site that still has ReLUs a learned keep score, all 1 at first (SNL section 3).
    ///
    /// # Errors
    /// When the device has no room for them.
    pub fn enable_keep_scores(&mut self, granularity: Granularity) -> Result<(), AssembleError> {
        let declare = |site: &ReluSite| {
            let Shape { channels, height, width } = site.shape;
            let (height, width) = if granularity == Granularity::Pixel { (height, width) } else { (1, 1) };
            Declared {
                name: format!("{}.keep", site.name),
                role: Role::Keep,
                shape: vec![1, channels as i64, height as i64, width as i64],
                values: Start::Constant(1.0),
            }
        };
        let sites = self.spec.walk().sites().iter();
        let scored = sites.filter(|site| *self.mask.site(site.index) != SiteMask::DropAll);
        let declared = scored.clone().map(declare).collect();
        let indices: Vec<SiteIndex> = scored.map(|site| site.index).collect();
        self.rebuild(declared)?;
        for index in indices {
            let name = format!("{}.keep", self.spec.walk().sites()[index.0].name);
            let keep = self.parameters.find(&name).expect("it was declared above");
            self.activations[index.0] = Activation::Scored { keep };
        }
        Ok(())
    }

    /// Whether keep scores are learned.
    pub fn has_keep_scores(&self) -> bool {
        self.activations.iter().any(|activation| matches!(activation, Activation::Scored { .. }))
    }

    /// The keep scores by site, as the forward pass reads them.
    pub fn keep_scores(&self) -> Vec<(SiteIndex, &Tensor)> {
        let score = |(index, activation): (usize, &Activation)| match activation {
            Activation::Scored { keep } => Some((SiteIndex(index), self.parameters.leaf(*keep))),
            _ => None,
        };
        self.activations.iter().enumerate().filter_map(score).collect()
    }

    /// The mask that keeps the ReLUs whose score is above a threshold; sites without scores stay as they are.
    pub fn mask_from_keep_scores(&self, threshold: f32) -> ActivationMask {
        let masks = self.spec.walk().sites().iter().map(|site| {
            let Activation::Scored { keep } = self.activations[site.index.0] else {
                return self.mask.site(site.index).clone();
            };
            let scores = self.parameters.leaf(keep);
            let bits: Vec<bool> = to_floats(scores).iter().map(|score| *score > threshold).collect();
            match (bits.iter().all(|bit| *bit), bits.iter().any(|bit| *bit)) {
                (true, _) => SiteMask::KeepAll,
                (_, false) => SiteMask::DropAll,
                _ if scores.size()[2..] == [1, 1] && site.shape.pixels() > 1 => {
                    SiteMask::Channels(Bits::collect(bits))
                }
                _ => SiteMask::Pixels(Bits::collect(bits)),
            }
        });
        ActivationMask::new(&self.spec, masks.collect()).expect("every site has a mask of its own size")
    }
}
