//! An ONNX file: read, then frozen.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use network::freeze::{FreezeError, FreezeOptions, FreezeReport, OutlineDetail, freeze};
use network::image::{Image, Normalization};
use network::inference_model::{InferenceModel, WeightBits};
use network::mask::ActivationMask;
use network::text::with_causes;
use onnx::ImportOptions;
use pyo3::prelude::*;

use crate::error::{ModelError, of_model};
use crate::images::{images, sides};
use crate::model::Model;
use crate::waiting::without_interpreter;

/// Random images that fix the scales where no others are given.
const CALIBRATION_IMAGES: u64 = 8;

/// A network from elsewhere with its weights.
#[pyclass(frozen, module = "sordino._native")]
pub(crate) struct Imported {
    imported: Arc<onnx::Imported>,
}

/// How an imported network is frozen.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Options {
    mean: Option<Vec<f32>>,
    deviation: Option<Vec<f32>>,
    class_names: Vec<String>,
    weight_bits: u8,
    activation_bits: u32,
    outline: String,
    mask: Option<PathBuf>,
}

#[pymethods]
impl Imported {
    /// Reads an ONNX file; `side` is height and width where the file leaves them open.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf, name: Option<String>, side: Option<usize>) -> PyResult<Self> {
        let options = ImportOptions { name, side };
        let read = without_interpreter(py, move |_| {
            let words = |error| format!("{} is not usable: {}", path.display(), with_causes(&error));
            onnx::import_file(&path, &options).map_err(words)
        });
        let imported = read?.map_err(ModelError::new_err)?;
        Ok(Self { imported: Arc::new(imported) })
    }

    /// Channels, height, width.
    #[getter]
    fn input_shape(&self) -> (usize, usize, usize) {
        sides(self.imported.network.input())
    }

    /// What a user should know about how the file was read.
    fn notes(&self, mean: Option<Vec<f32>>, deviation: Option<Vec<f32>>) -> Vec<String> {
        let note = self.imported.pixel_note(&Normalization { mean, deviation });
        self.imported.notes.iter().cloned().chain(note).collect()
    }

    /// Freezes it on the images of these bytes, or on random ones: the model, and a report as JSON.
    fn freeze(&self, py: Python<'_>, pixels: Option<&[u8]>, options: Options) -> PyResult<(Model, String)> {
        let input = self.imported.network.input();
        let calibration = match pixels {
            Some(pixels) => images(input, pixels)?,
            None => (0..CALIBRATION_IMAGES).map(|number| Image::random(input, number)).collect(),
        };
        let mask = options.mask.as_deref().map(|path| self.mask(path)).transpose()?;
        let freezing = options.freezing(&self.imported)?;
        let imported = Arc::clone(&self.imported);
        let frozen = without_interpreter(py, move |_| {
            let network = &imported.network;
            freeze(network, network.weights(), mask.as_ref(), &calibration, &freezing)
        });
        let (model, report): (InferenceModel, FreezeReport) =
            frozen?.map_err(|error: FreezeError| of_model(error))?;
        let report = serde_json::to_string(&report).map_err(of_model)?;
        Ok((Model::new(model), report))
    }
}

impl Imported {
    fn mask(&self, path: &Path) -> PyResult<ActivationMask> {
        ActivationMask::from_file(path, &self.imported.network).map_err(of_model)
    }
}

impl Options {
    fn freezing(self, imported: &onnx::Imported) -> PyResult<FreezeOptions> {
        let weight_bits = match self.weight_bits {
            8 => WeightBits::Eight,
            12 => WeightBits::Twelve,
            bits => {
                let words = format!("weights of {bits} bits are not supported; choose 8 or 12");
                return Err(ModelError::new_err(words));
            }
        };
        let outline = match self.outline.as_str() {
            "fine" => OutlineDetail::Fine,
            "coarse" => OutlineDetail::Coarse,
            other => {
                let words = format!("an outline is \"fine\" or \"coarse\", {other:?} came");
                return Err(ModelError::new_err(words));
            }
        };
        let given = Normalization { mean: self.mean, deviation: self.deviation };
        Ok(FreezeOptions {
            weight_bits,
            outline,
            activation_bits: self.activation_bits,
            class_names: self.class_names,
            image: Some(imported.image_format(&given).map_err(of_model)?),
            ..FreezeOptions::default()
        })
    }
}
