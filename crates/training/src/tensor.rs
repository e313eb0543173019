//! The tensor framework: the only module that names it.
//!
//! The rest of the crate sees [`Tensor`], a [`Device`] and a few ways in and out. On a machine with a GPU the CUDA
//! half of libtorch and a small shim are loaded at the first use (`gpu`); elsewhere nothing of CUDA is touched.

mod gpu;
mod graph;
mod guard;
mod lane;
mod operations;
mod processor;

use recipes::array::{Array, ArrayKind};
use recipes::recipe::Precision;

pub use graph::{CapturedStep, GraphError, Phase};
pub use guard::guarded;
pub use operations::{OperationCounts, count_operations};
pub use tch::{Kind, Tensor, no_grad};

pub(crate) use gpu::{fused_adam, fused_sgd};
pub(crate) use lane::Lane;

/// Where tensors live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The processor.
    Cpu,
    /// The first GPU.
    Cuda,
}

impl Device {
    /// The device of a name, which must be there.
    ///
    /// # Errors
    /// When the name is unknown, or names a GPU and none can be used.
    pub fn parse(name: &str) -> Result<Self, TensorError> {
        match name {
            "cpu" => Ok(Self::Cpu),
            "cuda" if cuda_is_available() => Ok(Self::Cuda),
            "cuda" => Err(TensorError::NoGpu { reason: gpu::missing() }),
            other => Err(TensorError::UnknownDevice { name: other.to_owned() }),
        }
    }

    fn framework(self) -> tch::Device {
        match self {
            Self::Cpu => tch::Device::Cpu,
            Self::Cuda => tch::Device::Cuda(0),
        }
    }

    /// The numbers in which this device computes what a recipe asks for: 32 bits instead of bf16 on a processor without
    /// instructions for it, which would be slower with less.
    pub fn computes_in(self, precision: Precision) -> Precision {
        match (self, precision) {
            (Self::Cpu, Precision::Bf16) if !processor::multiplies_bf16() => Precision::F32,
            (_, precision) => precision,
        }
    }

    /// Floats with a shape.
    ///
    /// # Panics
    /// If there are more or fewer than the shape asks for.
    pub fn floats(self, values: &[f32], shape: &[i64]) -> Tensor {
        self.place(&Tensor::from_slice(values).view(shape))
    }

    /// Integers with a shape.
    ///
    /// # Panics
    /// As for [`Self::floats`].
    pub fn integers(self, values: &[i64], shape: &[i64]) -> Tensor {
        self.place(&Tensor::from_slice(values).view(shape))
    }

    /// Bytes with a shape.
    ///
    /// # Panics
    /// As for [`Self::floats`].
    pub fn bytes(self, values: &[u8], shape: &[i64]) -> Tensor {
        self.place(&Tensor::from_slice(values).view(shape))
    }

    /// Zeros.
    pub fn zeros(self, shape: &[i64], kind: Kind) -> Tensor {
        gpu::load();
        Tensor::zeros(shape, (kind, self.framework()))
    }

    /// The numbers from 0 up.
    pub fn count(self, limit: i64) -> Tensor {
        gpu::load();
        Tensor::arange(limit, (Kind::Int64, self.framework()))
    }

    /// The same tensor on this device.
    pub fn place(self, tensor: &Tensor) -> Tensor {
        gpu::load();
        tensor.to_device(self.framework())
    }

    /// Lets what the calling thread gives to this device run beside what other threads give to it.
    ///
    /// # Errors
    /// When the GPU refuses.
    pub fn work_beside_others(self) -> Result<(), TensorError> {
        match self {
            Self::Cpu => Ok(()),
            Self::Cuda => gpu::own_stream().map_err(|detail| TensorError::Refused { detail }),
        }
    }

    /// Waits until all work given to the device is done.
    pub fn wait(self) {
        if self == Self::Cuda {
            tch::Cuda::synchronize(0);
        }
    }
}

/// Whether a GPU can be used.
pub fn cuda_is_available() -> bool {
    gpu::load() && tch::Cuda::is_available()
}

/// How many processor threads one operation uses. Results on the processor are bit-equal only for one such number.
pub fn set_threads(threads: usize) {
    gpu::load();
    tch::set_num_threads(i32::try_from(threads.max(1)).unwrap_or(i32::MAX));
}

/// Lets the GPU library time its convolution algorithms and take the fastest.
pub(crate) fn choose_fastest_convolutions() {
    tch::Cuda::cudnn_set_benchmark(true);
}

/// A float tensor's numbers, in order.
pub fn to_floats(tensor: &Tensor) -> Vec<f32> {
    let plain = tensor.detach().to_kind(Kind::Float).to_device(tch::Device::Cpu).contiguous();
    let mut values = vec![0.0; plain.numel()];
    plain.copy_data(&mut values, plain.numel());
    values
}

/// An integer tensor's numbers, in order.
pub fn to_integers(tensor: &Tensor) -> Vec<i64> {
    let plain = tensor.detach().to_kind(Kind::Int64).to_device(tch::Device::Cpu).contiguous();
    let mut values = vec![0; plain.numel()];
    plain.copy_data(&mut values, plain.numel());
    values
}

/// A float tensor as an array.
pub fn to_array(tensor: &Tensor) -> Array {
    let shape: Vec<usize> = tensor.size().iter().map(|side| *side as usize).collect();
    Array::from_floats(&shape, &to_floats(tensor))
}

/// Copies an array of floats into a tensor of the same shape; whether it was one.
pub(crate) fn fill_from_array(tensor: &Tensor, array: &Array) -> bool {
    let shape: Vec<i64> = array.shape.iter().map(|side| *side as i64).collect();
    if array.kind != ArrayKind::F32 || shape != tensor.size() {
        return false;
    }
    let values = array.floats().unwrap_or_default();
    no_grad(|| tensor.shallow_clone().copy_(&Tensor::from_slice(&values).view(shape.as_slice())));
    true
}

/// What can go wrong with tensors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// A device nobody knows.
    #[error("there is no device {name:?}; expected cpu or cuda")]
    UnknownDevice {
        /// What was asked for.
        name: String,
    },
    /// No GPU can be used.
    #[error("no GPU can be used: {reason}; use --device cpu, or see `sordino doctor`")]
    NoGpu {
        /// Why.
        reason: String,
    },
    /// The device has too little memory.
    #[error("the device ran out of memory; use a smaller batch or a smaller network ({detail})")]
    OutOfMemory {
        /// The framework's words.
        detail: String,
    },
    /// Anything else the framework refused.
    #[error("the tensor library refused an operation: {detail}")]
    Refused {
        /// The framework's words.
        detail: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_known_by_name() {
        assert_eq!(Device::parse("cpu"), Ok(Device::Cpu));
        let error = Device::parse("tpu").unwrap_err().to_string();
        assert!(error.contains("\"tpu\"") && error.contains("cpu or cuda"), "{error}");
        if !cuda_is_available() {
            let error = Device::parse("cuda").unwrap_err().to_string();
            assert!(error.contains("--device cpu"), "{error}");
        }
    }

    #[test]
    fn arrays_and_tensors_hold_the_same_numbers() {
        let tensor = Device::Cpu.floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
        let array = to_array(&tensor.transpose(0, 1));
        assert_eq!(array.shape, [3, 2]);
        assert_eq!(array.floats().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let other = Device::Cpu.zeros(&[2, 3], Kind::Float);
        assert!(!fill_from_array(&other, &array));
        assert!(fill_from_array(&other.transpose(0, 1), &array));
        assert_eq!(to_floats(&other), to_floats(&tensor));
    }
}
