//! Weights from a safetensors file.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensorError, SafeTensors};

use super::{FloatWeights, LayerWeights, NamesMap, WeightsError};
use crate::bytes::read_at_most;
use crate::spec::{NetworkSpec, public_slope};
use crate::walk::{Operation, Step};

/// As many weights as a network may have, as doubles.
const MAX_FILE_BYTES: u64 = 8 << 30;
/// How many faults one refusal lists.
const MAX_LISTED: usize = 12;

impl FloatWeights {
    /// Reads the weights of a network from a safetensors file.
    ///
    /// # Errors
    /// When the file cannot be read or is none, or tensors are missing, of another shape or of another kind; all of
    /// them are listed, with what was expected and what came. Also when the file has tensors that no layer uses, unless
    /// those are to be ignored: a bias that the network does not declare would be lost without a word.
    pub fn from_safetensors_file(
        spec: &NetworkSpec,
        names: &NamesMap,
        path: &Path,
        unused: UnusedTensors,
    ) -> Result<Self, WeightsFileError> {
        let bytes = read_at_most(path, MAX_FILE_BYTES)
            .map_err(|source| WeightsFileError::Unreadable { path: path.into(), source })?;
        if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(&[0x80, 2]) {
            return Err(WeightsFileError::Pickle);
        }
        let weights = Self::from_safetensors(spec, names, &bytes)?;
        let left = unused_tensors(spec, names, &bytes)?;
        if unused == UnusedTensors::Refuse && !left.is_empty() {
            return Err(WeightsFileError::Unused { names: left });
        }
        Ok(weights)
    }

    /// Reads the weights of a network from the bytes of a safetensors file.
    ///
    /// # Errors
    /// As for [`Self::from_safetensors_file`].
    pub fn from_safetensors(
        spec: &NetworkSpec,
        names: &NamesMap,
        bytes: &[u8],
    ) -> Result<Self, WeightsFileError> {
        let tensors = SafeTensors::deserialize(bytes).map_err(WeightsFileError::Format)?;
        let mut reader = Reader { tensors, faults: Vec::new() };
        let mut layers = BTreeMap::new();
        for step in spec.walk().steps() {
            let channels = spec.walk().shape(step.output).channels;
            if let Some(layer) = reader.layer(step, names.tensor(&step.name), channels) {
                layers.insert(step.name.clone(), layer);
            }
        }
        if !reader.faults.is_empty() {
            if let Some(prefix) = reader.common_prefix() {
                return Err(WeightsFileError::Prefix { prefix });
            }
            if let Some(name) = names.steps().find(|name| !is_step(spec, name)) {
                return Err(WeightsFileError::NoStep {
                    name: name.to_owned(),
                    nearest: nearest_step(spec, name),
                });
            }
            return Err(WeightsFileError::Tensors { faults: TensorFaults(reader.faults) });
        }
        Ok(Self::new(spec, layers)?)
    }
}

fn is_step(spec: &NetworkSpec, name: &str) -> bool {
    spec.walk().steps().iter().any(|step| step.name == name)
}

/// The step whose name is written most like this one.
fn nearest_step(spec: &NetworkSpec, name: &str) -> String {
    let steps = spec.walk().steps().iter().map(|step| step.name.as_str());
    steps.min_by_key(|step| strsim::levenshtein(step, name)).unwrap_or_default().to_owned()
}

/// What becomes of tensors that no layer uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnusedTensors {
    /// The file is refused.
    Refuse,
    /// They are passed over.
    Ignore,
}

/// The tensors of a file that no layer of the network reads. Counters of batches, which trainers keep beside batch
/// norms, are no weights.
fn unused_tensors(
    spec: &NetworkSpec,
    names: &NamesMap,
    bytes: &[u8],
) -> Result<Vec<String>, WeightsFileError> {
    let tensors = SafeTensors::deserialize(bytes).map_err(WeightsFileError::Format)?;
    let mut used = HashSet::new();
    for step in spec.walk().steps() {
        let parts: &[&str] = match &step.operation {
            Operation::Conv(conv) if conv.bias => &["weight", "bias"],
            Operation::Conv(_) => &["weight"],
            Operation::FullyConnected { .. } => &["weight", "bias"],
            Operation::BatchNorm { affine: true } => &["weight", "bias", "running_mean", "running_var"],
            Operation::BatchNorm { affine: false } => &["running_mean", "running_var"],
            Operation::SharedSigns { .. } => &["slope"],
            _ => &[],
        };
        used.extend(parts.iter().map(|part| format!("{}.{part}", names.tensor(&step.name))));
    }
    let is_left = |name: &&str| !used.contains(*name) && !name.ends_with("num_batches_tracked");
    let mut left: Vec<String> = tensors.names().into_iter().filter(is_left).map(str::to_owned).collect();
    left.sort_unstable();
    Ok(left)
}

struct Reader<'a> {
    tensors: SafeTensors<'a>,
    faults: Vec<TensorFault>,
}

impl Reader<'_> {
    /// What all missing tensors are called with in front, such as `module.` of a parallel trainer.
    fn common_prefix(&self) -> Option<String> {
        let missing = &self.faults.first()?.tensor;
        let names = self.tensors.names();
        let prefix = names.into_iter().find_map(|name| name.strip_suffix(missing.as_str()))?.to_owned();
        let is_there =
            |fault: &TensorFault| self.tensors.tensor(&format!("{prefix}{}", fault.tensor)).is_ok();
        (prefix.ends_with('.') && self.faults.iter().all(is_there)).then_some(prefix)
    }

    fn layer(&mut self, step: &Step, tensor: &str, channels: usize) -> Option<LayerWeights> {
        match &step.operation {
            Operation::Conv(conv) => {
                let shape = vec![conv.outputs, conv.inputs / conv.groups, conv.filter, conv.filter];
                Some(LayerWeights::Linear {
                    weights: self.numbers(step, tensor, "weight", shape),
                    biases: if conv.bias {
                        self.numbers(step, tensor, "bias", vec![channels])
                    } else {
                        vec![0.0; channels]
                    },
                })
            }
            Operation::FullyConnected { inputs, outputs } => Some(LayerWeights::Linear {
                weights: self.numbers(step, tensor, "weight", vec![*outputs, *inputs]),
                biases: self.numbers(step, tensor, "bias", vec![*outputs]),
            }),
            Operation::BatchNorm { affine } => {
                let mut learned = |part: &str, usual: f32| match affine {
                    true => self.numbers(step, tensor, part, vec![channels]),
                    false => vec![usual; channels],
                };
                Some(LayerWeights::BatchNorm {
                    scale: learned("weight", 1.0),
                    shift: learned("bias", 0.0),
                    mean: self.numbers(step, tensor, "running_mean", vec![channels]),
                    variance: self.numbers(step, tensor, "running_var", vec![channels]),
                })
            }
            Operation::SharedSigns { signs, .. } if signs.slopes => {
                // A trainer keeps what it learned; the network uses the slope nearest to it.
                let learned = self.numbers(step, tensor, "slope", vec![channels]);
                Some(LayerWeights::Slopes { slopes: learned.into_iter().map(public_slope).collect() })
            }
            _ => None,
        }
    }

    /// The numbers of one tensor; none, and a fault noted, where they cannot be had.
    fn numbers(&mut self, step: &Step, tensor: &str, part: &str, expected: Vec<usize>) -> Vec<f32> {
        let name = format!("{tensor}.{part}");
        let came = match self.tensors.tensor(&name) {
            Err(_) => "nothing".to_owned(),
            Ok(view) if view.shape() != expected => format!("{:?}", view.shape()),
            Ok(view) => match floats(&view) {
                Some(numbers) => return numbers,
                None => format!("numbers of kind {:?}", view.dtype()),
            },
        };
        self.faults.push(TensorFault { step: step.name.clone(), tensor: name, expected, came });
        Vec::new()
    }
}

/// The numbers of a tensor of floats of any width.
fn floats(view: &TensorView<'_>) -> Option<Vec<f32>> {
    let bytes = view.data();
    match view.dtype() {
        Dtype::F32 => {
            Some(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
        }
        Dtype::F64 => {
            let wide = |b: &[u8]| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]) as f32;
            Some(bytes.chunks_exact(8).map(wide).collect())
        }
        Dtype::BF16 => {
            Some(bytes.chunks_exact(2).map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32()).collect())
        }
        Dtype::F16 => {
            Some(bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect())
        }
        _ => None,
    }
}

/// A tensor that is not as the network needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorFault {
    /// The step that needs it.
    pub step: String,
    /// Its name.
    pub tensor: String,
    /// The shape that was expected.
    pub expected: Vec<usize>,
    /// What came instead.
    pub came: String,
}

/// All of them, printed as a short list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorFaults(pub Vec<TensorFault>);

impl std::fmt::Display for TensorFaults {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for fault in self.0.iter().take(MAX_LISTED) {
            let TensorFault { step, tensor, expected, came } = fault;
            write!(formatter, "\n  {tensor} (for {step}): expected {expected:?}, came {came}")?;
        }
        match self.0.len().saturating_sub(MAX_LISTED) {
            0 => Ok(()),
            more => write!(formatter, "\n  and {more} more"),
        }
    }
}

/// The first names, and how many more there are.
fn listed(names: &[String]) -> String {
    let shown = names.iter().take(MAX_LISTED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A file that does not hold the weights of the network.
#[derive(Debug, thiserror::Error)]
pub enum WeightsFileError {
    /// It could not be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no safetensors file.
    #[error("this is no safetensors file: {0}")]
    Format(#[source] SafeTensorError),
    /// It is what PyTorch saves by itself.
    #[error(
        "this is a pickle of PyTorch, which runs code when it is read; save the tensors with \
         safetensors.torch.save_file(model.state_dict(), FILE), or export the model as ONNX"
    )]
    Pickle,
    /// Tensors have something in front of their names.
    #[error("all tensors are called {prefix}...; save them without it, or name them with a map (--names)")]
    Prefix {
        /// What.
        prefix: String,
    },
    /// A map names a layer that there is not, and tensors are missing.
    #[error(
        "the map of names (--names) has {name:?}, which is no layer of the network; did you mean {nearest:?}? `sordino \
         inspect NETWORK --by layer` lists all"
    )]
    NoStep {
        /// What the map has.
        name: String,
        /// What is written most like it.
        nearest: String,
    },
    /// Tensors that no layer uses.
    #[error(
        "no layer of the network uses {} of its tensors: {}; a bias or a layer is missing from the network, or they are \
         to be passed over with --ignore-unused",
        names.len(),
        listed(names)
    )]
    Unused {
        /// Which.
        names: Vec<String>,
    },
    /// Tensors are missing or of another shape.
    #[error("{} tensors do not fit the network:{faults}", faults.0.len())]
    Tensors {
        /// Which.
        faults: TensorFaults,
    },
    /// Its numbers do not fit.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo;

    /// The tensors of a network as a trainer would name them.
    fn file(spec: &NetworkSpec, weights: &FloatWeights, names: &NamesMap) -> Vec<u8> {
        let mut tensors: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        for step in spec.walk().steps() {
            let tensor = names.tensor(&step.name);
            let mut push = |part: &str, shape: Vec<usize>, values: &[f32]| {
                tensors.push((format!("{tensor}.{part}"), shape, bytes(values)));
            };
            match weights.layer(&step.name) {
                Some(LayerWeights::Linear { weights, biases }) => match &step.operation {
                    Operation::Conv(conv) => {
                        let inputs = conv.inputs / conv.groups;
                        push("weight", vec![conv.outputs, inputs, conv.filter, conv.filter], weights);
                    }
                    _ => {
                        push("weight", vec![biases.len(), weights.len() / biases.len()], weights);
                        push("bias", vec![biases.len()], biases);
                    }
                },
                Some(LayerWeights::BatchNorm { scale, shift, mean, variance }) => {
                    push("weight", vec![scale.len()], scale);
                    push("bias", vec![scale.len()], shift);
                    push("running_mean", vec![scale.len()], mean);
                    push("running_var", vec![scale.len()], variance);
                }
                Some(LayerWeights::Slopes { slopes }) => {
                    let learned: Vec<f32> = slopes.iter().map(|slope| slope + 0.03).collect();
                    push("slope", vec![slopes.len()], &learned);
                }
                None => {}
            }
        }
        let views = tensors.iter().map(|(name, shape, bytes)| {
            (name.clone(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
        });
        safetensors::serialize(views, None).unwrap()
    }

    #[test]
    fn a_file_with_torchvision_names_reads_back() {
        let spec = zoo::build("resnet18:m=2,stem=imagenet", 32, 10).unwrap();
        let weights = FloatWeights::random(&spec, 4);
        let names = NamesMap::torchvision_resnet18();
        let bytes = file(&spec, &weights, &names);
        assert_eq!(FloatWeights::from_safetensors(&spec, &names, &bytes).unwrap(), weights);
    }

    #[test]
    fn tensors_that_no_layer_uses_are_refused_or_ignored() {
        let spec = zoo::build("resnet10:m=2", 8, 10).unwrap();
        let weights = FloatWeights::random(&spec, 4);
        let bytes = file(&spec, &weights, &NamesMap::default());
        let with = |extra: &[&str]| {
            let tensors = SafeTensors::deserialize(&bytes).unwrap();
            let bias = TensorView::new(Dtype::F32, vec![1], &[0; 4]).unwrap();
            let extra = extra.iter().map(|name| ((*name).to_owned(), bias.clone()));
            safetensors::serialize(tensors.tensors().into_iter().chain(extra), None).unwrap()
        };
        let read = |bytes: &[u8], unused| {
            let path = std::env::temp_dir().join(format!("sordino-unused-{}", std::process::id()));
            std::fs::write(&path, bytes).unwrap();
            let read = FloatWeights::from_safetensors_file(&spec, &NamesMap::default(), &path, unused);
            std::fs::remove_file(path).unwrap();
            read.map_err(|error| error.to_string())
        };
        let plain = with(&["stem.norm1.num_batches_tracked"]);
        assert_eq!(read(&plain, UnusedTensors::Refuse).as_ref(), Ok(&weights));
        let biased = with(&["stem.conv1.bias"]);
        let error = read(&biased, UnusedTensors::Refuse).unwrap_err();
        assert!(error.contains("uses 1 of its tensors: stem.conv1.bias"), "{error}");
        assert_eq!(read(&biased, UnusedTensors::Ignore), Ok(weights));
        assert!(
            read(b"PK\x03\x04....", UnusedTensors::Refuse)
                .unwrap_err()
                .contains("safetensors.torch.save_file")
        );
    }

    #[test]
    fn a_prefix_of_all_tensors_is_named_once() {
        let spec = zoo::build("resnet10:m=2", 8, 10).unwrap();
        let bytes = file(&spec, &FloatWeights::random(&spec, 4), &NamesMap::default());
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let renamed = tensors.tensors().into_iter().map(|(name, view)| (format!("module.{name}"), view));
        let renamed = safetensors::serialize(renamed, None).unwrap();
        let error = FloatWeights::from_safetensors(&spec, &NamesMap::default(), &renamed).unwrap_err();
        assert!(error.to_string().starts_with("all tensors are called module."), "{error}");
    }

    #[test]
    fn a_slip_in_a_map_of_names_is_told_from_a_missing_tensor() {
        let spec = zoo::build("resnet10:m=2", 8, 10).unwrap();
        let map = |step: &str| NamesMap::from_toml(&format!("[names]\n\"{step}\" = \"first\"\n")).unwrap();
        let bytes = file(&spec, &FloatWeights::random(&spec, 4), &map("stem.conv1"));
        assert!(FloatWeights::from_safetensors(&spec, &map("stem.conv1"), &bytes).is_ok());
        let error =
            FloatWeights::from_safetensors(&spec, &map("stem.covn1"), &bytes).unwrap_err().to_string();
        assert!(
            error.contains("has \"stem.covn1\"") && error.contains("did you mean \"stem.conv1\""),
            "{error}"
        );
    }

    #[test]
    fn slopes_between_two_sixteenths_become_the_nearest() {
        let spec = zoo::build("signet:signs=0+2,stream=4+4,depths=1+1", 8, 10).unwrap();
        let weights = FloatWeights::random(&spec, 4);
        let bytes = file(&spec, &weights, &NamesMap::default());
        assert_eq!(FloatWeights::from_safetensors(&spec, &NamesMap::default(), &bytes).unwrap(), weights);
    }

    #[test]
    fn missing_and_odd_tensors_are_listed() {
        let small = zoo::build("resnet18:m=2", 32, 10).unwrap();
        let names = NamesMap::torchvision_resnet18();
        let bytes = file(&small, &FloatWeights::random(&small, 4), &names);
        let other = zoo::build("resnet18:m=2", 32, 7).unwrap();
        let error = FloatWeights::from_safetensors(&other, &names, &bytes).unwrap_err().to_string();
        assert!(error.starts_with("2 tensors do not fit the network:"), "{error}");
        assert!(error.contains("fc.weight (for head.fc1): expected [7, 16], came [10, 16]"), "{error}");
        let error = FloatWeights::from_safetensors(&small, &NamesMap::default(), &bytes).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("stem.conv1.weight (for stem.conv1): expected [2, 3, 3, 3], came nothing"),
            "{text}"
        );
        assert!(text.contains("more"), "{text}");
    }

    #[test]
    fn bytes_that_are_no_safetensors_are_refused() {
        let spec = zoo::build("resnet18:m=2", 32, 10).unwrap();
        for bad in [&b""[..], b"12345678", &[255; 40]] {
            let result = FloatWeights::from_safetensors(&spec, &NamesMap::default(), bad);
            assert!(matches!(result, Err(WeightsFileError::Format(_))));
        }
    }

    #[test]
    fn half_precision_follows_the_standard() {
        let cases = [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 2.0_f32.powi(-24)),
            (0x3555, 0.333_251_95),
        ];
        let read = |bits: u16| {
            let bytes = bits.to_le_bytes();
            floats(&TensorView::new(Dtype::F16, vec![1], &bytes).unwrap()).unwrap()[0]
        };
        for (bits, value) in cases {
            assert_eq!(read(bits), value);
        }
        assert!(read(0x7e00).is_nan() && read(0xfc00) == f32::NEG_INFINITY);
    }
}
